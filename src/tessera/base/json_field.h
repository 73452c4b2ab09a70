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

/// Who wrote a JSON text, and so which error a bad one is: a file DataError, the caller
/// ConfigError, a peer CommError.
enum class JsonAuthor { kFile, kCaller, kPeer };

/// What a JSON text is to be, for the messages about it.
struct JsonSource {
  std::string_view origin;     // Before every message: the file. "" for none.
  std::string_view what;       // "dump", "config".
  int deepest = 8;             // Levels of lists and objects.
  int64_t begin = 0;           // Of the text in the file.
  std::string_view root = "";  // The document's name, in the names of its fields: "fsdp2".
  JsonAuthor author = JsonAuthor::kFile;

  /// Throws the author's error.
  [[noreturn]] void fail(const std::string& message) const;
};

/// The author's error, with the byte where the text breaks off, nests too deeply or names a key
/// twice.
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

/// One value of a document, which knows its way from the root for messages. It must not outlive
/// the document, its source or the field it was taken from.
class JsonField {
 public:
  using Json = nlohmann::json;

  JsonField(const Json& value, const JsonSource& source) : value_(value), source_(source) {}

  /// The author's error: "f.json: shape[0] is -1; expected a whole number of at least 0".
  [[noreturn]] void refuse(std::string_view expected) const;
  void check(bool fits, std::string_view expected) const {
    if (!fits) refuse(expected);
  }
  /// Refuses an object with other keys than these.
  void check_keys(std::span<const std::string> known) const;

  /// "shape[0]"; "the dump" for the document.
  std::string path() const;
  const Json& value() const { return value_; }

  /// Whether there is a value for the key; null is none.
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
  /// On one line, as by visible().
  std::string text() const;
  /// As it is.
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
