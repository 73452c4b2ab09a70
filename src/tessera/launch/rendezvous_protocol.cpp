#include "tessera/launch/rendezvous_protocol.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/json_field.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;  // Keeps the order of the fields.

constexpr int64_t kLargest = 1'000'000'000;               // Limit of numbers on the wire.
constexpr size_t kLongestText = 2000;                     // Limit of strings, before escaping.
constexpr std::string_view kPing = R"({"type":"ping"})";  // Most messages of a large job.
constexpr size_t kMostTailLines = 10;
constexpr size_t kLongestTailLine = 240;

// The first bytes of a text, without splitting a character.
std::string first_bytes(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) >> 6U) == 2U;
  };
  size_t end = most;
  while (end > most - 3 && continues(end)) --end;
  return text.substr(0, end);
}

std::vector<std::string> last_lines(const std::vector<std::string>& lines) {
  std::vector<std::string> last;
  const size_t count = std::min(lines.size(), kMostTailLines);
  for (size_t i = lines.size() - count; i < lines.size(); ++i) {
    last.push_back(first_bytes(lines[i], kLongestTailLine));
  }
  return last;
}

// fields(archive, part) describes a message or a part of it once; Writer and Reader are the
// archives. `Of` is the part's type, const for the Writer.
template <class Archive, class Of>
void fields(Archive& archive, Of& part);

class Writer {
 public:
  void number(const char* key, const int64_t& value, int64_t, int64_t) { object_[key] = value; }
  void flag(const char* key, const bool& value) { object_[key] = value; }
  void text(const char* key, const std::string& value) {
    object_[key] = first_bytes(value, kLongestText);
  }
  void lines(const char* key, const std::vector<std::string>& values) {
    object_[key] = last_lines(values);
  }
  template <class Part>
  void part(const char* key, const Part& value) {
    Writer writer;
    fields(writer, value);
    object_[key] = writer.take();
  }
  template <class Part>
  void part(const char* key, const std::optional<Part>& value) {
    if (value) part(key, *value);
  }
  Json take() { return std::move(object_); }

 private:
  Json object_ = Json::object();
};

class Reader {
 public:
  explicit Reader(const JsonField& object) : object_(object) {}

  void number(const char* key, int64_t& value, int64_t lowest, int64_t highest) {
    value = take(key).integer(lowest, highest);
  }
  void flag(const char* key, bool& value) { value = take(key).boolean(); }
  void text(const char* key, std::string& value) { value = take(key).raw_text(); }
  void lines(const char* key, std::vector<std::string>& values) {
    values = take(key).list([](const JsonField& line) { return line.raw_text(); });
  }
  template <class Part>
  void part(const char* key, Part& value) {
    const JsonField field = take(key);
    Reader reader(field);
    fields(reader, value);
    reader.finish();
  }
  template <class Part>
  void part(const char* key, std::optional<Part>& value) {
    if (object_.has(key)) part(key, value.emplace());
  }
  void finish() const { object_.check_keys(known_); }

 private:
  JsonField take(const char* key) {
    known_.emplace_back(key);
    return object_.at(key);
  }
  const JsonField& object_;
  std::vector<std::string> known_;
};

void kind_field(Writer& writer, const Failure& failure) {
  writer.number("kind", static_cast<int64_t>(failure.kind), 0, 0);
}

void kind_field(Reader& reader, Failure& failure) {
  int64_t kind = 0;
  reader.number("kind", kind, 0, static_cast<int64_t>(Failure::Kind::kResize));
  failure.kind = static_cast<Failure::Kind>(kind);
}

template <class Archive, class Of>
void failure_fields(Archive& archive, Of& failure) {
  kind_field(archive, failure);
  archive.number("node", failure.node, 0, kLargest);
  archive.text("host", failure.host);
  archive.number("rank", failure.rank.value, 0, kLargest);
  archive.number("code", failure.exit_code, 0, 255);
  archive.number("signal", failure.signal, 0, 64);
  archive.text("message", failure.message);
  archive.text("stream", failure.tail_name);
  archive.lines("tail", failure.tail);
}

template <class Archive, class Of>
void verdict_fields(Archive& archive, Of& verdict) {
  archive.number("restart", verdict.restart, 0, kLargest);
  archive.number("max_restarts", verdict.max_restarts, 0, kLargest);
  archive.flag("healthy", verdict.healthy);
}

template <class Archive, class Of>
void fields(Archive& archive, Of& message) {
  using Type = std::remove_const_t<Of>;
  if constexpr (std::is_same_v<Type, Failure>) {
    failure_fields(archive, message);
  } else if constexpr (std::is_same_v<Type, Verdict>) {
    verdict_fields(archive, message);
  } else if constexpr (std::is_same_v<Type, JoinMessage>) {
    archive.number("version", message.version, 0, kLargest);
    archive.text("id", message.id);
    archive.number("nnodes", message.nnodes, 1, kLargest);
    archive.number("nproc", message.nproc, 1, kLargest);
    archive.number("node", message.node, -1, kLargest);
    archive.text("host", message.host);
  } else if constexpr (std::is_same_v<Type, RefuseMessage>) {
    archive.text("reason", message.reason);
    archive.flag("later", message.later);
  } else if constexpr (std::is_same_v<Type, StartMessage>) {
    archive.number("round", message.round, 0, kLargest);
    archive.number("restart", message.restart, 0, kLargest);
    archive.number("max_restarts", message.max_restarts, 0, kLargest);
    archive.number("node", message.node, 0, kLargest);
    archive.number("nnodes", message.nnodes, 1, kLargest);
    archive.text("addr", message.master_addr);
    archive.number("port", message.master_port, 1, 65535);
    archive.text("secret", message.secret);
  } else if constexpr (std::is_same_v<Type, FailedMessage>) {
    archive.number("round", message.round, 0, kLargest);
    archive.part("failure", message.failure);
  } else if constexpr (std::is_same_v<Type, StopMessage>) {
    archive.number("round", message.round, 0, kLargest);
    archive.part("failure", message.failure);
    archive.part("verdict", message.verdict);
  } else if constexpr (std::is_same_v<Type, HealthyMessage> || std::is_same_v<Type, DoneMessage>) {
    archive.number("round", message.round, 0, kLargest);
  } else if constexpr (std::is_same_v<Type, StoppedMessage>) {
    archive.number("round", message.round, 0, kLargest);
    archive.flag("resumable", message.resumable);
  } else if constexpr (std::is_same_v<Type, EndMessage>) {
    archive.part("failure", message.failure);
  }  // welcome and ping have no fields.
}

// In the order of the variant.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypes{
    "join", "welcome", "refuse",  "start", "healthy", "failed",
    "done", "stop",    "stopped", "end",   "ping"};

template <size_t I = 0>
Message empty_message(size_t index) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (index == I) return Message(std::in_place_index<I>);
    return empty_message<I + 1>(index);
  }
  throw CommError("a message has an unknown type");
}

}  // namespace

std::string encode(const Message& message) {
  if (std::holds_alternative<PingMessage>(message)) return concat(kPing, "\n");
  Json object{{"type", kTypes[message.index()]}};
  Writer writer;
  std::visit([&](const auto& one) { fields(writer, one); }, message);
  object.update(writer.take());
  // In ASCII; invalid UTF-8 becomes U+FFFD.
  return object.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Message decode(std::string_view line) {
  if (line == kPing) return PingMessage{};
  const JsonSource source{
      .origin = "", .what = "message", .deepest = 3, .author = JsonAuthor::kPeer};
  if (line.size() >= kLongestMessage) throw CommError("a line is too long");
  const nlohmann::json document = parse_json(line, source);
  const JsonField root(document, source);
  std::string type;
  Reader reader(root);
  reader.text("type", type);
  const auto known = std::ranges::find(kTypes, type);
  Message message = empty_message(static_cast<size_t>(known - kTypes.begin()));
  std::visit([&](auto& one) { fields(reader, one); }, message);
  reader.finish();
  return message;
}

}  // namespace tessera
