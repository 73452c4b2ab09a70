#include "tessera/launch/rendezvous_protocol.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr int64_t kLargest = 1'000'000'000;  // Of any number on the wire.
constexpr size_t kLongestText = 2000;        // Of a value, before its bytes are escaped.
constexpr size_t kMostTailLines = 10;
constexpr size_t kLongestTailLine = 240;

bool is_plain(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 ||
         std::string_view("-._:/,+@").find(byte) != std::string_view::npos;
}

std::string escape(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if (is_plain(byte)) {
      escaped += byte;
    } else {
      escaped += {'%', kDigits[value >> 4U], kDigits[value & 15U]};
    }
  }
  return escaped;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  throw CommError("a value has a '%' without two hexadecimal digits");
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) throw CommError("a value ends inside of '%XX'");
      plain += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      if (!is_plain(text[i])) throw CommError("a value has a byte that must be escaped");
      plain += text[i];
    }
  }
  if (plain.size() > kLongestText) throw CommError("a value is too long");
  return plain;
}

// A message type is described once, by fields(archive, message); Writer and Reader are the
// archives.
class Writer {
 public:
  void number(const char* key, const int64_t& value, int64_t, int64_t) {
    add(key, std::to_string(value));
  }
  void flag(const char* key, const bool& value) { add(key, value ? "1" : "0"); }
  void text(const char* key, const std::string& value) {
    add(key, escape(std::string_view(value).substr(0, kLongestText)));
  }
  std::string take() { return std::move(line_); }

 private:
  void add(const char* key, const std::string& value) { line_ += concat(" ", key, "=", value); }
  std::string line_;
};

class Reader {
 public:
  explicit Reader(std::map<std::string, std::string, std::less<>> fields)
      : fields_(std::move(fields)) {}

  void number(const char* key, int64_t& value, int64_t lowest, int64_t highest) {
    const auto parsed = to_integer(take(key));
    if (!parsed || *parsed < lowest || *parsed > highest) {
      throw CommError(concat("the field '", key, "' is no number from ", lowest, " to ", highest));
    }
    value = *parsed;
  }
  void flag(const char* key, bool& value) {
    int64_t number_value = 0;
    number(key, number_value, 0, 1);
    value = number_value == 1;
  }
  void text(const char* key, std::string& value) { value = unescape(take(key)); }
  bool has(const char* key) const { return fields_.contains(key); }
  void finish() const {
    if (!fields_.empty()) throw CommError("a field is unknown here");
  }

 private:
  std::string take(const char* key) {
    const auto found = fields_.find(key);
    if (found == fields_.end()) throw CommError(concat("the field '", key, "' is missing"));
    std::string value = std::move(found->second);
    fields_.erase(found);
    return value;
  }
  std::map<std::string, std::string, std::less<>> fields_;
};

// The tail travels as one text, a line each.
std::string joined_tail(const Failure& failure) {
  std::string text;
  const size_t count = std::min(failure.tail.size(), kMostTailLines);
  for (size_t i = failure.tail.size() - count; i < failure.tail.size(); ++i) {
    if (text.size() + kLongestTailLine >= kLongestText) break;
    text += concat(text.empty() ? "" : "\n", failure.tail[i].substr(0, kLongestTailLine));
  }
  return text;
}

void tail_field(Writer& writer, const Failure& failure) {
  writer.text("tail", joined_tail(failure));
}

void tail_field(Reader& reader, Failure& failure) {
  std::string text;
  reader.text("tail", text);
  failure.tail.clear();
  if (text.empty()) return;
  for (const std::string_view line : split(text, '\n')) failure.tail.emplace_back(line);
}

void kind_field(Writer& writer, const Failure& failure) {
  writer.number("kind", static_cast<int64_t>(failure.kind), 0, 0);
}

void kind_field(Reader& reader, Failure& failure) {
  int64_t kind = 0;
  reader.number("kind", kind, 0, static_cast<int64_t>(Failure::Kind::kMeeting));
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
  tail_field(archive, failure);
}

template <class Archive, class Of>
void verdict_fields(Archive& archive, Of& verdict) {
  archive.number("restart", verdict.restart, 0, kLargest);
  archive.number("max_restarts", verdict.max_restarts, 0, kLargest);
  archive.flag("healthy", verdict.healthy);
}

// `Of` is a message type, const for the Writer.
template <class Archive, class Of>
void fields(Archive& archive, Of& message) {
  using Type = std::remove_const_t<Of>;
  if constexpr (std::is_same_v<Type, JoinMessage>) {
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
    archive.text("addr", message.master_addr);
    archive.number("port", message.master_port, 1, 65535);
    archive.text("secret", message.secret);
  } else if constexpr (std::is_same_v<Type, FailedMessage>) {
    archive.number("round", message.round, 0, kLargest);
    failure_fields(archive, message.failure);
  } else if constexpr (std::is_same_v<Type, StopMessage>) {
    archive.number("round", message.round, 0, kLargest);
    failure_fields(archive, message.failure);
    verdict_fields(archive, message.verdict);
  } else if constexpr (std::is_same_v<Type, HealthyMessage> || std::is_same_v<Type, DoneMessage> ||
                       std::is_same_v<Type, StoppedMessage>) {
    archive.number("round", message.round, 0, kLargest);
  }  // welcome and ping have none, end has those of a failure or none.
}

void end_fields(Writer& writer, const EndMessage& message) {
  if (message.failure) failure_fields(writer, *message.failure);
}

void end_fields(Reader& reader, EndMessage& message) {
  if (reader.has("kind")) failure_fields(reader, message.failure.emplace());
}

// In the order of the variant.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kWords{
    "join", "welcome", "refuse",  "start", "healthy", "failed",
    "done", "stop",    "stopped", "end",   "ping"};

template <size_t I = 0>
Message empty_message(size_t index) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (index == I) return Message(std::in_place_index<I>);
    return empty_message<I + 1>(index);
  }
  throw CommError("the first word is unknown");
}

std::pair<std::string, std::string> field_of(std::string_view piece) {
  const size_t equals = piece.find('=');
  if (equals == std::string_view::npos || equals == 0) throw CommError("a field is not key=value");
  return {std::string(piece.substr(0, equals)), std::string(piece.substr(equals + 1))};
}

}  // namespace

std::string encode(const Message& message) {
  Writer writer;
  std::visit([&](const auto& one) { fields(writer, one); }, message);
  if (const auto* end = std::get_if<EndMessage>(&message)) end_fields(writer, *end);
  return concat(kWords[message.index()], writer.take(), "\n");
}

Message decode(std::string_view line) {
  if (line.size() >= kLongestMessage) throw CommError("a line is too long");
  const auto pieces = split(line, ' ');
  const auto word = std::ranges::find(kWords, pieces.front());
  Message message = empty_message(static_cast<size_t>(word - kWords.begin()));
  std::map<std::string, std::string, std::less<>> found;
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (!found.insert(field_of(pieces[i])).second) throw CommError("a field comes twice");
  }
  Reader reader(std::move(found));
  std::visit([&](auto& one) { fields(reader, one); }, message);
  if (auto* end = std::get_if<EndMessage>(&message)) end_fields(reader, *end);
  reader.finish();
  return message;
}

}  // namespace tessera
