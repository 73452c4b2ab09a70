#include "tessera/kernel/rotary.h"

#include "tessera/base/check.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

// A thread has WIDTH pairs. Strides are counted in elements. Without a table it copies.
constexpr GpuKernel kRotate("rotate", R"cuda(
struct Strides { i64 row, position, head; };

extern "C" __global__ void rotate(const T* in, T* out, const T* cosines, const T* sines, u32 total,
                                  u32 positions, u32 heads, u32 pairs, Strides from, Strides to,
                                  i64 table_row, float sign) {
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= total) return;
  const u32 groups = pairs / WIDTH;
  const u32 pair = index % groups * WIDTH;
  u32 rest = index / groups;
  const u32 head = rest % heads;
  rest /= heads;
  const u32 position = rest % positions;
  const i64 row = rest / positions;
  in += row * from.row + position * from.position + head * from.head + pair;
  out += row * to.row + position * to.position + head * to.head + pair;
  const Pack first = load(in), second = load(in + pairs);
  if (cosines == nullptr) {
    store(out, first);
    store(out + pairs, second);
    return;
  }
  const i64 angle = row * table_row + i64(position) * pairs + pair;
  const Pack cosine = load(cosines + angle), sine = load(sines + angle);
  Pack a, b;
  for (int i = 0; i < WIDTH; ++i) {
    const float x = wide(first.at[i]), y = wide(second.at[i]);
    const float c = wide(cosine.at[i]), s = sign * wide(sine.at[i]);
    put(a.at[i], x * c - y * s);
    put(b.at[i], y * c + x * s);
  }
  store(out, a);
  store(out + pairs, b);
}
)cuda");

struct Strides {
  int64_t row, position, head;
};

Strides strides_of(const at::Tensor& heads) {
  TSR_ASSERT(heads.stride(3) == 1, "the elements of a head must be neighbours");
  return {heads.stride(0), heads.stride(1), heads.stride(2)};
}

// Undefined tables for a copy.
void launch(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
            double sign, int64_t width, const at::Tensor& out) {
  const int64_t pairs = heads.size(3) / 2;
  const int64_t total = heads.numel() / 2 / width;
  TSR_CHECK(total <= INT32_MAX, "heads of shape ", heads.sizes(), " are too many for one call");
  // Rows may share one table.
  const bool has_rows = cosines.defined() && cosines.dim() == 4 && cosines.size(0) > 1;
  constexpr int64_t kThreads = 256;
  kRotate.launch(heads.device(), {.dtype = heads.scalar_type(), .width = width},
                 {.blocks = groups_of(total, kThreads), .threads = kThreads},
                 heads.const_data_ptr(), out.mutable_data_ptr(), data_or_null(cosines),
                 data_or_null(sines), static_cast<uint32_t>(total),
                 static_cast<uint32_t>(heads.size(1)), static_cast<uint32_t>(heads.size(2)),
                 static_cast<uint32_t>(pairs), strides_of(heads), strides_of(out),
                 has_rows ? heads.size(1) * pairs : int64_t{0}, static_cast<float>(sign));
}

}  // namespace

void rotate_on_gpu(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
                   double sign, const at::Tensor& out) {
  const at::Tensor cosine = cosines.contiguous();
  const at::Tensor sine = sines.contiguous();
  const int64_t width = pack_width({heads, out, cosine, sine}, heads.size(3) / 2);
  launch(heads, cosine, sine, sign, width, out);
}

void copy_heads_on_gpu(const at::Tensor& heads, const at::Tensor& out) {
  launch(heads, {}, {}, 1, pack_width({heads, out}, heads.size(3) / 2), out);
}

}  // namespace tessera
