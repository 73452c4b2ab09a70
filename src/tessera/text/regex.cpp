#define PCRE2_CODE_UNIT_WIDTH 8
#include "tessera/text/internal/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::text::detail {
namespace {

constexpr uint32_t kLeastSteps = 10'000'000;      // PCRE2's own limit, for one place of a text.
constexpr uint32_t kStepsForEachByte = 16;        // A long run of spaces takes a few for each.
constexpr size_t kStackBegin = size_t{32} << 10;  // Of compiled expressions, in bytes.
constexpr size_t kStackMost = size_t{64} << 20;
constexpr uint32_t kHeapMost = 256 << 10;  // In KiB, where PCRE2 cannot compile for this machine.

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data() == nullptr ? "" : text.data());
}

template <class T>
T* made(T* part) {
  if (part == nullptr) throw std::bad_alloc();
  return part;
}

}  // namespace

struct Matcher::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
  }

  pcre2_match_data* data = made(pcre2_match_data_create(1, nullptr));
  pcre2_jit_stack* stack = made(pcre2_jit_stack_create(kStackBegin, kStackMost, nullptr));
  pcre2_match_context* context = made(pcre2_match_context_create(nullptr));
};

Matcher::Matcher() : parts_(std::make_unique<Parts>()) {
  pcre2_jit_stack_assign(parts_->context, nullptr, parts_->stack);
  pcre2_set_heap_limit(parts_->context, kHeapMost);
}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

struct Regex::Code {
  Code(const std::string& pattern, const std::string& origin);
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code = nullptr;
  bool compiled = false;  // To instructions of this machine.
};

Regex::Code::Code(const std::string& pattern, const std::string& origin) {
  pcre2_compile_context* const context = made(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code = pcre2_compile(units(pattern), pattern.size(),
                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    throw DataError(concat(origin, ": PCRE2 refuses the expression: ", pcre2_message(error)));
  }
  compiled = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
}

Regex::Regex(const std::string& pattern, std::string origin)
    : code_(std::make_unique<Code>(pattern, origin)), origin_(std::move(origin)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex::~Regex() = default;

std::optional<Range> Regex::find(std::string_view text, size_t from, Matcher& matcher,
                                 bool goes_on) const {
  const Matcher::Parts& parts = *matcher.parts_;
  constexpr auto kMost = std::numeric_limits<uint32_t>::max();
  const size_t steps = kLeastSteps + kStepsForEachByte * text.size();
  pcre2_set_match_limit(parts.context, static_cast<uint32_t>(std::min<size_t>(steps, kMost)));
  // The quick way checks nothing: the text is valid and begins a character at `from`.
  const uint32_t options = goes_on ? PCRE2_PARTIAL_HARD : 0;
  const int result = code_->compiled
                         ? pcre2_jit_match(code_->code, units(text), text.size(), from, options,
                                           parts.data, parts.context)
                         : pcre2_match(code_->code, units(text), text.size(), from,
                                       options | PCRE2_NO_UTF_CHECK, parts.data, parts.context);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(parts.data);
  if (result == PCRE2_ERROR_PARTIAL) return Range{ends[0], std::string::npos};
  if (result < 0) {
    throw DataError(concat(origin_, ": the expression takes too long at byte ", from,
                           " of a text of ", text.size(), " bytes (", pcre2_message(result), ")"));
  }
  return Range{ends[0], ends[1]};
}

std::string quoted_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_special =
        static_cast<signed char>(c) >= 0 &&
        std::string_view("\\^$.[]|()?*+{}-#/").find(c) != std::string_view::npos;
    if (is_special) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace tessera::text::detail
