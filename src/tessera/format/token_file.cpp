#include "tessera/format/token_file.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/format/npy.h"

namespace tessera {
namespace {

// `bytes` need not be aligned.
template <class Number>
void widen(std::span<const std::byte> bytes, std::span<int64_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    Number number{};
    std::memcpy(&number, bytes.data() + i * sizeof(Number), sizeof(Number));
    tokens[i] = static_cast<int64_t>(number);
  }
}

using Widen = void (*)(std::span<const std::byte>, std::span<int64_t>);

Widen widener(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return widen<uint8_t>;
    case DType::kU16:
      return widen<uint16_t>;
    case DType::kU32:
      return widen<uint32_t>;
    case DType::kI32:
      return widen<int32_t>;
    case DType::kI64:
      return widen<int64_t>;
    default:
      return nullptr;
  }
}

size_t width(DType dtype) {
  return static_cast<size_t>(bits_of(dtype) / 8);
}

}  // namespace

TokenFile::TokenFile(const std::string& path, DType raw) : file_(path), dtype_(raw) {
  data_ = file_.bytes();
  if (path.ends_with(".npy")) {
    const NpyHeader header = parse_npy(data_, path);
    if (header.shape.size() != 1 || widener(header.dtype) == nullptr) {
      throw DataError(concat(path, ": ", to_string(header.dtype), " of shape (",
                             join(header.shape, ", "),
                             "); expected tokens: one dimension of U8, U16, U32, I32 or I64"));
    }
    dtype_ = header.dtype;
    data_ = data_.subspan(static_cast<size_t>(header.data_begin));
  }
  TSR_CHECK(widener(dtype_) != nullptr, "tokens cannot be of ", to_string(dtype_),
            "; choose U8, U16 or U32");
  if (data_.size() % width(dtype_) != 0) {
    throw DataError(concat(path, ": ", data_.size(), " bytes are not a whole number of ",
                           to_string(dtype_),
                           " tokens; is it truncated, or does it have another type?"));
  }
  size_ = static_cast<int64_t>(data_.size() / width(dtype_));
}

void TokenFile::read(int64_t begin, std::span<int64_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  TSR_CHECK(begin >= 0 && begin <= size_ - count, "tokens ", begin, " to ", begin + count, " of ",
            path(), " were requested, which has ", size_);
  const size_t offset = static_cast<size_t>(begin) * width(dtype_);
  widener(dtype_)(data_.subspan(offset, tokens.size() * width(dtype_)), tokens);
  const auto negative = std::ranges::find_if(tokens, [](int64_t token) { return token < 0; });
  if (negative == tokens.end()) return;
  throw DataError(concat(path(), ": token ", begin + (negative - tokens.begin()), " is ", *negative,
                         ", but ids must be at least 0"));
}

}  // namespace tessera
