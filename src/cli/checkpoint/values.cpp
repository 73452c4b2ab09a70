#include "cli/checkpoint/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tessera::cli {
namespace {

double of_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

double of_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

template <class T, class Convert>
void append_as(std::span<const std::byte> bytes, std::vector<double>& out, Convert convert) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    out.push_back(convert(value));
  }
}

template <class T>
void append_numbers(std::span<const std::byte> bytes, std::vector<double>& out) {
  append_as<T>(bytes, out, [](T value) { return static_cast<double>(value); });
}

}  // namespace

bool append_values(DType dtype, std::span<const std::byte> bytes, std::vector<double>& out) {
  switch (dtype) {
    case DType::kF64:
      append_numbers<double>(bytes, out);
      return true;
    case DType::kF32:
      append_numbers<float>(bytes, out);
      return true;
    case DType::kBF16:
      append_as<uint16_t>(bytes, out, of_bfloat16);
      return true;
    case DType::kF16:
      append_as<uint16_t>(bytes, out, of_half);
      return true;
    case DType::kI64:
      append_numbers<int64_t>(bytes, out);
      return true;
    case DType::kI32:
      append_numbers<int32_t>(bytes, out);
      return true;
    case DType::kI16:
      append_numbers<int16_t>(bytes, out);
      return true;
    case DType::kI8:
      append_numbers<int8_t>(bytes, out);
      return true;
    case DType::kU64:
      append_numbers<uint64_t>(bytes, out);
      return true;
    case DType::kU32:
      append_numbers<uint32_t>(bytes, out);
      return true;
    case DType::kU16:
      append_numbers<uint16_t>(bytes, out);
      return true;
    case DType::kU8:
    case DType::kBool:
      append_numbers<uint8_t>(bytes, out);
      return true;
    default:
      return false;
  }
}

void for_each_block(const CheckpointTensor& tensor, const std::function<void(const Box&)>& use) {
  constexpr int64_t kMost = 4 << 20;
  Box box{tensor.shape, std::vector<int64_t>(tensor.shape.size(), 0)};
  if (box.numel() == 0) return;
  if (tensor.shape.empty()) return use(box);
  const int64_t row = box.numel() / tensor.shape[0] * (bits_of(tensor.dtype) / 8);
  const int64_t rows = std::max<int64_t>(1, kMost / row);
  for (int64_t begin = 0; begin < tensor.shape[0]; begin += rows) {
    box.offset[0] = begin;
    box.shape[0] = std::min(rows, tensor.shape[0] - begin);
    use(box);
  }
}

}  // namespace tessera::cli
