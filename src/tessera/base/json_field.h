#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The author of a JSON text, which decides the error for a bad one: a file DataError, the caller
/// ConfigError, a peer CommError.
enum class JsonAuthor { kFile, kCaller, kPeer };

/// What a JSON text should be, for messages.
struct JsonSource {
  std::string_view origin;     // Starts every message, e.g. the file; may be "".
  std::string_view what;       // "dump", "config".
  int deepest = 8;             // Maximal nesting of lists and objects.
  int64_t begin = 0;           // Offset of the text in the file.
  std::string_view root = "";  // Prefix of the field names, e.g. "fsdp2".
  JsonAuthor author = JsonAuthor::kFile;

  /// Throws the author's error.
  [[noreturn]] void fail(const std::string& message) const;
};

/// Throws the author's error, with the byte, if the text is malformed, nests too deeply or repeats
/// a key.
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

/// One value of a document, with its path from the root for messages. It must not outlive the
/// document, its source or the field it was taken from.
class JsonField {
 public:
  using Json = nlohmann::json;

  JsonField(const Json& value, const JsonSource& source) : value_(value), source_(source) {}

  /// Throws the author's error: "f.json: shape[0] is -1; expected a whole number of at least 0".
  [[noreturn]] void refuse(std::string_view expected) const;
  void check(bool fits, std::string_view expected) const {
    if (!fits) refuse(expected);
  }
  /// Refuses an object with any other key.
  void check_keys(std::span<const std::string> known) const;

  /// "shape[0]"; "the dump" for the document.
  std::string path() const;
  const Json& value() const { return value_; }

  /// Whether the key has a value other than null.
  bool has_value(std::string_view key) const { return has(key) && !value_.at(key).is_null(); }
  bool has(std::string_view key) const { return value_.is_object() && value_.contains(key); }
  JsonField at(std::string_view key) const;
  bool is_null() const { return value_.is_null(); }
  bool is_object() const { return value_.is_object(); }

  int64_t integer() const;
  int64_t integer(int64_t least, int64_t most = INT64_MAX) const;
  double number() const;
  /// A number of at least 0.
  double duration() const;
  bool boolean() const;
  /// The text on one line, as by visible().
  std::string text() const;
  /// The text unchanged.
  std::string raw_text() const;

  template <class Read>
  auto list(Read read) const {
    if (!value_.is_array()) refuse("a list");
    std::vector<decltype(read(*this))> results;
    results.reserve(value_.size());
    for (size_t i = 0; i < value_.size(); ++i) {
      results.push_back(read(JsonField(value_[i], this, i)));
    }
    return results;
  }

  template <class Read>
  void members(Read read) const {
    if (!value_.is_object()) refuse("an object");
    for (const auto& [key, value] : value_.items()) read(key, JsonField(value, this, key));
  }

  std::string_view origin() const { return source_.origin; }

 private:
  JsonField(const Json& value, const JsonField* parent, std::string_view key)
      : value_(value), source_(parent->source_), parent_(parent), key_(key) {}
  JsonField(const Json& value, const JsonField* parent, size_t index)
      : value_(value), source_(parent->source_), parent_(parent), index_(index) {}

  std::optional<int64_t> as_integer() const;
  std::string shown() const;

  const Json& value_;
  const JsonSource& source_;
  const JsonField* parent_ = nullptr;
  std::string_view key_;
  std::optional<size_t> index_;
};

}  // namespace tessera
