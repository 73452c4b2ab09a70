#include "tests/golden/rank_expression.h"

#include <cctype>
#include <charconv>
#include <string>

namespace tessera::golden {
namespace {

class Expression {
 public:
  Expression(std::string_view text, int64_t rank) : text_(text), left_(text), rank_(rank) {}

  Json value() {
    const Json value = comparison();
    skip_blanks();
    if (!left_.empty()) refuse();
    return value;
  }

 private:
  [[noreturn]] void refuse() const { throw UnknownName("expression", std::string(text_)); }

  void skip_blanks() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }

  Json comparison() {
    const Json left = sum();
    if (take("==")) return left == sum();
    if (take("!=")) return left != sum();
    return left;
  }

  Json sum() {
    Json value = product();
    for (;;) {
      if (take("+")) {
        value = combine(value, product(), [](auto a, auto b) { return a + b; });
      } else if (take("-")) {
        value = combine(value, product(), [](auto a, auto b) { return a - b; });
      } else {
        return value;
      }
    }
  }

  Json product() {
    Json value = power();
    while (!left_.starts_with("**") && take("*")) {
      value = combine(value, power(), [](auto a, auto b) { return a * b; });
    }
    return value;
  }

  Json power() {
    const Json base = atom();
    if (!take("**")) return base;
    const Json exponent = power();
    Json value = 1;
    for (int64_t i = 0; i < exponent.get<int64_t>(); ++i) {
      value = combine(value, base, [](auto a, auto b) { return a * b; });
    }
    return value;
  }

  Json atom() {
    if (take("rank")) return rank_;
    if (take("-")) return combine(0, atom(), [](auto a, auto b) { return a - b; });
    if (!take("(")) return number();
    Json value = comparison();
    if (!take(")")) refuse();
    return value;
  }

  Json number() {
    size_t size = 0;
    while (size < left_.size() && (std::isdigit(left_[size]) != 0 || left_[size] == '.')) ++size;
    const std::string_view digits = left_.substr(0, size);
    left_.remove_prefix(size);
    if (const auto whole = to_integer(digits)) return *whole;
    double value = 0;
    const auto end = digits.data() + digits.size();
    if (digits.empty() || std::from_chars(digits.data(), end, value).ptr != end) refuse();
    return value;
  }

  template <class Operation>
  static Json combine(const Json& a, const Json& b, Operation operation) {
    if (a.is_number_float() || b.is_number_float()) {
      return operation(a.get<double>(), b.get<double>());
    }
    return operation(a.get<int64_t>(), b.get<int64_t>());
  }

  std::string_view text_;
  std::string_view left_;
  int64_t rank_;
};

}  // namespace

Json evaluate(std::string_view expression, int64_t rank) {
  return Expression(expression, rank).value();
}

}  // namespace tessera::golden
