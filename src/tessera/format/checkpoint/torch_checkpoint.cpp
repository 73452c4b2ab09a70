#include "tessera/format/checkpoint/torch_checkpoint.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/format/checkpoint/box_copy.h"
#include "tessera/format/checkpoint/checkpoint_index.h"
#include "tessera/format/pickle.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;
using Kind = PickleValue::Kind;

/// The entries of a zip archive as torch.save() writes it: stored without compression.
class ZipArchive {
 public:
  ZipArchive(Bytes bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}

  /// The entry whose path ends so. DataError if there is none.
  Bytes entry(std::string_view ending) const {
    const auto [begin, count] = directory();
    uint64_t at = begin;
    for (uint64_t i = 0; i < count; ++i) {
      check(number(at, 4) == 0x02014b50, "an entry is malformed");
      const uint64_t name = number(at + 28, 2);
      const uint64_t extra = number(at + 30, 2);
      if (text(at + 46, name).ends_with(ending)) return content(at, name, extra);
      at += 46 + name + extra + number(at + 32, 2);
    }
    fail(concat("the archive has no entry '", ending, "'"));
  }

 private:
  [[noreturn]] void fail(const std::string& words) const {
    throw DataError(concat(origin_, ": ", words, "; was it truncated?"));
  }
  void check(bool good, const char* words) const {
    if (!good) fail(words);
  }
  Bytes range(uint64_t begin, uint64_t size) const {
    check(begin <= bytes_.size() && size <= bytes_.size() - begin, "the archive ends early");
    return bytes_.subspan(begin, size);
  }
  uint64_t number(uint64_t begin, size_t width) const {
    uint64_t value = 0;
    std::memcpy(&value, range(begin, width).data(), width);
    return value;
  }
  std::string_view text(uint64_t begin, uint64_t size) const {
    return {reinterpret_cast<const char*>(range(begin, size).data()), size};
  }

  // Offset and number of entries of the directory, from the 64-bit record if there is one.
  std::pair<uint64_t, uint64_t> directory() const {
    constexpr uint64_t kEnd = 22, kLocator = 20;
    check(bytes_.size() >= kEnd, "it is not an archive");
    const uint64_t end = bytes_.size() - kEnd;  // torch.save() adds no comment.
    check(number(end, 4) == 0x06054b50, "it is not an archive");
    const uint64_t locator = end - kLocator;
    if (end >= kLocator && number(locator, 4) == 0x07064b50) {
      const uint64_t record = number(locator + 8, 8);
      check(number(record, 4) == 0x06064b50, "its directory is malformed");
      return {number(record + 48, 8), number(record + 32, 8)};
    }
    return {number(end + 16, 4), number(end + 10, 2)};
  }

  Bytes content(uint64_t entry, uint64_t name, uint64_t extra) const {
    constexpr uint64_t kIn64Bits = 0xffffffff;
    check(number(entry + 10, 2) == 0, "an entry is compressed");
    uint64_t size = number(entry + 24, 4);
    uint64_t offset = number(entry + 42, 4);
    uint64_t at = entry + 46 + name;
    const uint64_t end = at + extra;
    while (at + 4 <= end) {  // Extra field 1: the values that do not fit 32 bits.
      uint64_t value = at + 4;
      const bool wide = number(at, 2) == 1;
      at = value + number(at + 2, 2);
      if (!wide) continue;
      const bool packed = number(entry + 20, 4) == kIn64Bits;
      if (size == kIn64Bits) size = number(std::exchange(value, value + 8), 8);
      if (packed) value += 8;
      if (offset == kIn64Bits) offset = number(value, 8);
    }
    check(number(offset, 4) == 0x04034b50, "an entry is malformed");
    return range(offset + 30 + number(offset + 26, 2) + number(offset + 28, 2), size);
  }

  Bytes bytes_;
  std::string_view origin_;
};

bool is_tensor_part(std::string_view name) {
  return name == "torch._utils._rebuild_tensor_v2" || name == "collections.OrderedDict" ||
         (name.starts_with("torch.") && name.ends_with("Storage"));
}

std::vector<int64_t> integers(const PickleValue& tuple) {
  std::vector<int64_t> all;
  for (const PickleValue& one : tuple.items) all.push_back(one.integer);
  return all;
}

bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    if (shape[i - 1] != 1 && stride[i - 1] != expected) return false;
    expected *= shape[i - 1];
  }
  return true;
}

/// A tensor as data.pkl describes it.
struct SavedTensor {
  std::string storage;  // The name of its entry below data/.
  int64_t offset = 0;   // Elements before it.
};

// _rebuild_tensor_v2(storage, offset, shape, stride, …) of a persistent id ("storage", type, name,
// …).
SavedTensor saved_tensor(const PickleValue& value, const std::vector<int64_t>& shape,
                         std::string_view origin) {
  const auto check = [&](bool good, const char* words) {
    if (!good) throw DataError(concat(origin, ": ", words));
  };
  check(value.kind == Kind::kRecord && value.text == "torch._utils._rebuild_tensor_v2",
        "it is not a plain tensor");
  const std::vector<PickleValue>& arguments = value.items[0].items;
  check(arguments.size() >= 4 && arguments[0].text == "persistent id" &&
            arguments[0].items[0].items.size() >= 3 &&
            arguments[0].items[0].items[2].kind == Kind::kText,
        "it is not a plain tensor");
  check(integers(arguments[2]) == shape, "the tensor has another shape than the metadata says");
  const std::vector<int64_t> stride = integers(arguments[3]);
  check(stride.size() == shape.size() && is_contiguous(shape, stride),
        "the tensor is not contiguous, which is not read here");
  check(arguments[1].integer >= 0, "the tensor begins before its memory");
  return {.storage = arguments[0].items[0].items[2].text, .offset = arguments[1].integer};
}

std::map<std::string, TorchTensor> read_metadata(const std::string& folder) {
  const std::string path = fs::path(folder) / ".metadata";
  if (!fs::exists(path)) {
    throw DataError(
        concat(folder, " holds no .metadata; is it a folder of ", "torch.distributed.checkpoint?"));
  }
  const MappedFile file(path);
  auto tensors = parse_torch_metadata(file.bytes(), path);
  for (const auto& [name, tensor] : tensors) {
    std::vector<Box> boxes;
    for (const TorchChunk& chunk : tensor.chunks) boxes.push_back(chunk.box);
    const std::string problem = tiling_problem(tensor.shape, std::move(boxes));
    if (problem.empty()) continue;
    throw DataError(
        concat(path, ": the chunks of '", visible(name), "' do not make up the tensor: ", problem));
  }
  return tensors;
}

}  // namespace

std::span<const std::byte> torch_tensor_bytes(std::span<const std::byte> archive, DType dtype,
                                              const std::vector<int64_t>& shape,
                                              std::string_view origin) {
  const ZipArchive zip(archive, origin);
  const SavedTensor saved =
      saved_tensor(parse_pickle(zip.entry("/data.pkl"), origin, is_tensor_part), shape, origin);
  const Bytes storage = zip.entry(concat("/data/", saved.storage));
  const auto width = static_cast<uint64_t>(bits_of(dtype) / 8);
  const auto bytes = static_cast<uint64_t>(bytes_of(dtype, shape).value_or(0));
  const uint64_t elements = storage.size() / width;
  const auto offset = static_cast<uint64_t>(saved.offset);
  if (offset > elements || bytes > storage.size() - offset * width) {
    throw DataError(concat(origin, ": the tensor has more elements than its memory"));
  }
  return storage.subspan(offset * width, bytes);
}

TorchCheckpoint::TorchCheckpoint(std::string folder)
    : folder_(std::move(folder)), tensors_(read_metadata(folder_)) {}

const MappedFile& TorchCheckpoint::open(const std::string& file) const {
  const auto at = opened_.find(file);
  if (at != opened_.end()) return at->second;
  return opened_.emplace(file, MappedFile(fs::path(folder_) / file)).first->second;
}

void TorchCheckpoint::read(const std::string& name, const Box& box,
                           std::span<std::byte> out) const {
  const TorchTensor& tensor = tensors_.at(name);
  const auto width = static_cast<size_t>(bits_of(tensor.dtype) / 8);
  for (const TorchChunk& chunk : tensor.chunks) {
    const auto shared = intersect(chunk.box, box);
    if (!shared) continue;
    const MappedFile& file = open(chunk.file);
    const auto begin = static_cast<size_t>(chunk.begin);
    const auto size = static_cast<size_t>(chunk.size);
    if (begin > file.bytes().size() || size > file.bytes().size() - begin) {
      throw DataError(concat(file.path(), " has ", file.bytes().size(), " bytes, but '",
                             visible(name), "' ends at ", begin + size, "; was it truncated?"));
    }
    const Bytes values =
        torch_tensor_bytes(file.bytes().subspan(begin, size), tensor.dtype, chunk.box.shape,
                           concat(file.path(), ", '", visible(name), "'"));
    for_each_shared_run(chunk.box, box, *shared, [&](int64_t from, int64_t to, int64_t count) {
      std::memcpy(out.data() + static_cast<size_t>(to) * width,
                  values.data() + static_cast<size_t>(from) * width,
                  static_cast<size_t>(count) * width);
    });
  }
}

}  // namespace tessera
