#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::text::detail {

/// The memory of matching, which threads cannot share.
class Matcher {
 public:
  Matcher();
  Matcher(Matcher&&) noexcept;
  ~Matcher();

 private:
  friend class Regex;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Offsets of a part of a text.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

/// An expression compiled by PCRE2. Threads may share it.
class Regex {
 public:
  /// `origin` starts the messages. DataError if PCRE2 refuses it.
  Regex(const std::string& pattern, std::string origin);
  Regex(Regex&&) noexcept;
  ~Regex();

  /// The first match that begins at `from` or later in a valid UTF-8 text. With `goes_on` the text
  /// is the begin of a longer one: a match that depends on what follows has no end (npos).
  /// DataError if it takes more steps or memory than any harmless expression.
  std::optional<Range> find(std::string_view text, size_t from, Matcher& matcher,
                            bool goes_on = false) const;
  const std::string& origin() const& { return origin_; }

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string origin_;
};

/// An expression that matches exactly this text.
std::string quoted_pattern(std::string_view text);

}  // namespace tessera::text::detail
