#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::format::detail {

/// What a JSON text is to be, for the messages about it.
struct JsonSource {
  std::string_view origin;  // The file.
  std::string_view what;    // "dump", "config".
  int deepest = 8;          // Levels of lists and objects.
  int64_t begin = 0;        // Of the text in the file.
};

/// DataError with the byte where the text breaks off, nests too deeply or names a key twice.
nlohmann::json parse_json(std::string_view text, const JsonSource& source);

/// One value of a document, which knows its way from the root for messages. It must not outlive
/// the document, its source or the field it was taken from.
class JsonField {
 public:
  using Json = nlohmann::json;

  JsonField(const Json& value, const JsonSource& source) : value_(value), source_(source) {}

  /// DataError: "f.json: shape[0] is -1; expected a whole number of at least 0".
  [[noreturn]] void refuse(std::string_view expected) const;

  bool has(std::string_view key) const { return value_.is_object() && value_.contains(key); }
  JsonField at(std::string_view key) const;
  bool is_null() const { return value_.is_null(); }
  bool is_object() const { return value_.is_object(); }

  int64_t integer(int64_t least, int64_t most = INT64_MAX) const;
  double number() const;
  /// A number of at least 0.
  double duration() const;
  bool boolean() const;
  /// On one line, as by visible().
  std::string text() const;

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

  std::string path() const;
  std::string shown() const;

  const Json& value_;
  const JsonSource& source_;
  const JsonField* parent_ = nullptr;
  std::string_view key_;
  std::optional<size_t> index_;
};

}  // namespace tessera::format::detail
