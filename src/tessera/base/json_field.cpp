#include "tessera/base/json_field.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_set>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

// " near byte N": the last byte read, as an offset in the file.
std::string near(const JsonSource& source, int64_t passed) {
  return passed == 0 ? "" : concat(" near byte ", source.begin + passed - 1);
}

// Removes line breaks, which do not belong in names, but occur in errors that a dump quotes.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return visible(text);
}

// Iterates over a text and counts, because not all parser errors have a position.
class CountedCharacter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedCharacter(const char* at, int64_t& passed) : at_(at), passed_(&passed) {}

  reference operator*() const { return *at_; }
  CountedCharacter& operator++() {
    ++at_;
    ++*passed_;
    return *this;
  }
  bool operator==(const CountedCharacter& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int64_t* passed_;
};

// Refuses what Json::parse accepts: unlimited depth and repeated keys. Reads the text before the
// parser, because a parser with a callback per value takes quadratic time.
class Guard final : public nlohmann::json_sax<Json> {
 public:
  Guard(const JsonSource& source, const int64_t& passed) : source_(source), passed_(passed) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(int64_t) override { return value(); }
  bool number_unsigned(uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(Json::binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    (void)value();
    if (!keys_.back().insert(name).second) {
      source_.fail(concat(Json(name).dump(), " appears twice", near(source_, passed_)));
    }
    return true;
  }

  bool parse_error(size_t, const std::string&, const Json::exception&) override {
    source_.fail(concat("broken JSON", near(source_, passed_),
                        "; was it truncated, or is it not a ", source_.what, "?"));
  }

 private:
  bool value() const {
    if (static_cast<int>(keys_.size()) > source_.deepest) {
      source_.fail(concat("nested too deeply for a ", source_.what, near(source_, passed_)));
    }
    return true;
  }
  bool open() {
    (void)value();
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  const JsonSource& source_;
  const int64_t& passed_;                              // Characters read.
  std::vector<std::unordered_set<std::string>> keys_;  // Per open object; empty for lists.
};

}  // namespace

Json parse_json(std::string_view text, const JsonSource& source) {
  int64_t passed = 0;
  Guard guard(source, passed);
  (void)Json::sax_parse(CountedCharacter(text.data(), passed),
                        CountedCharacter(text.data() + text.size(), passed), &guard);
  return Json::parse(text);
}

void JsonSource::fail(const std::string& message) const {
  const std::string words = origin.empty() ? message : concat(origin, ": ", message);
  if (author == JsonAuthor::kCaller) throw ConfigError(words);
  if (author == JsonAuthor::kPeer) throw CommError(words);
  throw DataError(words);
}

void JsonField::refuse(std::string_view expected) const {
  source_.fail(concat(path(), " is ", shown(), "; expected ", expected));
}

void JsonField::check_keys(std::span<const std::string> known) const {
  members([&](const std::string& key, const JsonField&) {
    if (std::ranges::find(known, key) != known.end()) return;
    const std::string meant = did_you_mean(key, known);
    source_.fail(concat(path(), " has no field '", visible(key), "'",
                        meant.empty() ? concat("; it has ", join(known, ", ")) : meant));
  });
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_.is_object()) refuse("an object");
  const auto found = value_.find(key);
  if (found == value_.end()) {
    source_.fail(concat(path(), " has no field '", key, "'"));
  }
  return JsonField(*found, this, key);
}

std::optional<int64_t> JsonField::as_integer() const {
  const bool fits = value_.is_number_integer() &&
                    (!value_.is_number_unsigned() || value_.get<uint64_t>() <= INT64_MAX);
  return fits ? std::optional(value_.get<int64_t>()) : std::nullopt;
}

int64_t JsonField::integer() const {
  const auto number = as_integer();
  if (!number) refuse("a 64-bit whole number");
  return *number;
}

int64_t JsonField::integer(int64_t least, int64_t most) const {
  const auto number = as_integer();
  if (!number || *number < least || *number > most) {
    refuse(most == INT64_MAX ? concat("a whole number of at least ", least)
                             : concat("a whole number from ", least, " to ", most));
  }
  return *number;
}

double JsonField::number() const {
  if (!value_.is_number()) refuse("a number");
  return value_.get<double>();
}

double JsonField::duration() const {
  const double number = value_.is_number() ? value_.get<double>() : -1;
  if (!(number >= 0) || !std::isfinite(number)) refuse("a number of at least 0");
  return number;
}

bool JsonField::boolean() const {
  if (!value_.is_boolean()) refuse("true or false");
  return value_.get<bool>();
}

std::string JsonField::text() const {
  return one_line(raw_text());
}

std::string JsonField::raw_text() const {
  if (!value_.is_string()) refuse("text");
  return value_.get<std::string>();
}

std::string JsonField::path() const {
  if (parent_ == nullptr) {
    return source_.root.empty() ? concat("the ", source_.what) : std::string(source_.root);
  }
  const std::string step = index_ ? concat("[", *index_, "]") : std::string(key_);
  if (parent_->parent_ == nullptr && source_.root.empty()) return visible(step);
  return concat(parent_->path(), index_ ? "" : ".", visible(step));
}

std::string JsonField::shown() const {
  constexpr size_t kMost = 40;
  if (value_.is_structured()) return value_.is_array() ? "a list" : "an object";
  const std::string text = value_.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : concat(text.substr(0, kMost), "…");
}

}  // namespace tessera
