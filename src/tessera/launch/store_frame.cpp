#include "tessera/launch/store_frame.h"

#include <cstring>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr size_t kNumberBytes = sizeof(uint32_t);

void put_number(std::string& bytes, size_t number) {
  const auto value = static_cast<uint32_t>(number);
  bytes.append(reinterpret_cast<const char*>(&value), kNumberBytes);
}

// Reads from the front of a text.
class FrameReader {
 public:
  explicit FrameReader(std::string_view rest) : rest_(rest) {}

  size_t number() {
    uint32_t value = 0;
    std::memcpy(&value, bytes(kNumberBytes).data(), kNumberBytes);
    return value;
  }
  std::string_view bytes(size_t count) {
    if (count > rest_.size()) throw DataError("a store frame is shorter than its length");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  size_t size() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

bool is_known(StoreOp op) {
  return (StoreOp::kHello <= op && op <= StoreOp::kCount) ||
         (StoreOp::kOk <= op && op <= StoreOp::kRefused);
}

StoreFrame parse(std::string_view body) {
  FrameReader reader(body);
  StoreFrame frame{.op = static_cast<StoreOp>(reader.bytes(1)[0])};
  if (!is_known(frame.op)) throw DataError("a store frame has an unknown operation");
  const size_t count = reader.number();
  if (count > reader.size() / kNumberBytes) {
    throw DataError(concat("a store frame has ", count, " fields in ", reader.size(), " bytes"));
  }
  for (size_t i = 0; i < count; ++i) frame.fields.emplace_back(reader.bytes(reader.number()));
  if (reader.size() != 0) throw DataError("a store frame is longer than its fields");
  return frame;
}

}  // namespace

std::string to_bytes(const StoreFrame& frame) {
  std::string body(1, static_cast<char>(frame.op));
  put_number(body, frame.fields.size());
  for (const std::string& field : frame.fields) {
    put_number(body, field.size());
    body += field;
  }
  if (body.size() > kLongestStoreFrame) {
    throw DataError(concat("a store frame of ", body.size(), " bytes; at most ", kLongestStoreFrame,
                           " are allowed"));
  }
  std::string bytes;
  put_number(bytes, body.size());
  return bytes + body;
}

std::optional<StoreFrame> take_frame(std::string& buffer, size_t longest) {
  if (buffer.size() < kNumberBytes) return std::nullopt;
  const size_t length = FrameReader(buffer).number();
  if (length > longest) {
    throw DataError(
        concat("a store frame of ", length, " bytes; at most ", longest, " are allowed"));
  }
  if (buffer.size() < kNumberBytes + length) return std::nullopt;
  StoreFrame frame = parse(std::string_view(buffer).substr(kNumberBytes, length));
  buffer.erase(0, kNumberBytes + length);
  return frame;
}

}  // namespace tessera
