#include "tessera/layer/documents.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

DocumentLengths lengths_of(const int64_t* numbers, int64_t count) {
  DocumentLengths lengths;
  int64_t begin = 0;
  for (int64_t i = 1; i <= count; ++i) {
    if (i < count && numbers[i] == numbers[i - 1]) continue;
    lengths.push_back(i - begin);
    begin = i;
  }
  return lengths;
}

}  // namespace

PackedRows packed_rows(const at::Tensor& numbers) {
  TSR_CHECK(numbers.dim() == 2 && numbers.scalar_type() == at::kLong && numbers.numel() > 0,
            "document numbers have shape ", numbers.sizes(), " and dtype ", numbers.scalar_type(),
            "; pass at least one row of [batch, positions] as int64 (Long)");
  const at::Tensor here = numbers.cpu().contiguous();
  PackedRows rows;
  for (int64_t row = 0; row < here.size(0); ++row) {
    rows.push_back(lengths_of(here.const_data_ptr<int64_t>() + row * here.size(1), here.size(1)));
  }
  return rows;
}

}  // namespace tessera
