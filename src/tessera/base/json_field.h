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
  std::string_view origin;                // Starts every message, e.g. the file; may be "".
  std::string_view what;                  // "dump", "config".
  int deepest = 8;                        // Maximal nesting of lists and objects.
  int64_t begin = 0;                      // Offset of the text in the file.
  std::string_view root = "";             // Prefix of the field names, e.g. "fsdp2".
  JsonAuthor author = JsonAuthor::kFile;  // Decides the type of the errors.

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
  /// What parse_json() makes.
  using Json = nlohmann::json;

  JsonField(const Json& value, const JsonSource& source) : value_(value), source_(source) {}

  /// Throws the author's error: "f.json: shape[0] is -1; expected a whole number of at least 0".
  [[noreturn]] void refuse(std::string_view expected) const;
  /// Refuses the value unless it fits.
  void check(bool fits, std::string_view expected) const {
    if (!fits) refuse(expected);
  }
  /// Refuses an object with any other key.
  void check_keys(std::span<const std::string> known) const;

  /// "shape[0]"; "the dump" for the document.
  std::string path() const;
  /// Unchecked. Part of the document.
  const Json& value() const { return value_; }

  /// Whether the key has a value other than null.
  bool has_value(std::string_view key) const { return has(key) && !value_.at(key).is_null(); }
  /// Whether it is an object with this key, maybe null.
  bool has(std::string_view key) const { return value_.is_object() && value_.contains(key); }
  /// The key's value; throws the author's error if there is none.
  JsonField at(std::string_view key) const;
  /// Whether the document says null here.
  bool is_null() const { return value_.is_null(); }
  /// Whether it can have keys.
  bool is_object() const { return value_.is_object(); }

  /// Refuses anything but a whole number of 64 bits.
  int64_t integer() const;
  /// Also refuses numbers out of this range, which includes its ends.
  int64_t integer(int64_t least, int64_t most = INT64_MAX) const;
  /// Refuses anything but a number, which may be a whole one.
  double number() const;
  /// A number of at least 0.
  double duration() const;
  /// Refuses anything but true or false.
  bool boolean() const;
  /// The text on one line, as by visible().
  std::string text() const;
  /// The text unchanged.
  std::string raw_text() const;

  /// The results of `read(entry)`, in order. Refuses anything but a list.
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

  /// Calls `read(key, value)`, sorted by key. Refuses anything but an object.
  template <class Read>
  void members(Read read) const {
    if (!value_.is_object()) refuse("an object");
    for (const auto& [key, value] : value_.items()) read(key, JsonField(value, this, key));
  }

  /// As in its source, e.g. the file.
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
