#include "tessera/base/checked.h"

#include "tessera/base/check.h"

namespace tessera {

int64_t checked_multiply(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  TSR_CHECK(!__builtin_mul_overflow(a, b, &product), what, " overflows 64 bits: ", a, " × ", b,
            "; choose smaller sizes");
  return product;
}

int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  TSR_CHECK(!__builtin_add_overflow(a, b, &sum), what, " overflows 64 bits: ", a, " + ", b,
            "; choose smaller values");
  return sum;
}

int64_t checked_product(std::span<const int64_t> factors, std::string_view what) {
  int64_t product = 1;
  for (const int64_t factor : factors) product = checked_multiply(product, factor, what);
  return product;
}

int64_t checked_integer(std::string_view text, std::string_view what) {
  const auto value = to_integer(text);
  TSR_CHECK(value.has_value(), what, " '", text,
            "' is not a whole number of 64 bits; write only digits, e.g. ", what, " 64");
  return *value;
}

}  // namespace tessera
