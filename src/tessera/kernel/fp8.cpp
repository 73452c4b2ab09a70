#include "tessera/kernel/fp8.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/kernel/nvrtc/nvrtc.h"

namespace tessera {
namespace {

constexpr const char* kScales = R"cuda(
// What is no number stays none.
__device__ float bounded(float largest) { return largest < SMALLEST ? SMALLEST : largest; }
__device__ float scale_of(float largest) { return bounded(largest) / LARGEST; }
__device__ float factor_of(float largest) { return LARGEST / bounded(largest); }

// What is no number does not count here, and stays none when it is rounded.
__device__ float larger(float largest, T x) { return fmaxf(largest, fabsf(wide(x))); }
)cuda";

// THREADS threads share a row, of which each has PACKS packs: as many as KEPT stay in registers, of
// longer rows all are read a second time.
constexpr GpuKernel kRows("fp8_rows", kScales, R"cuda(
struct alignas(WIDTH) Narrow { fp8 at[WIDTH]; };

__device__ Narrow narrow(const Pack& pack, float factor) {
  Narrow made;
#if WIDTH == 1
  fp8 none;
  put(made.at[0], none, wide(pack.at[0]) * factor, 0.0f);
#else
  for (int i = 0; i < WIDTH; i += 2) {
    put(made.at[i], made.at[i + 1], wide(pack.at[i]) * factor, wide(pack.at[i + 1]) * factor);
  }
#endif
  return made;
}

__device__ float largest_of_row(float largest) {
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
  }
#if THREADS > 32
  __shared__ float of_warp[THREADS / 32];
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int i = 0; i < THREADS / 32; ++i) largest = fmaxf(largest, of_warp[i]);
#endif
  return largest;
}

extern "C" __global__ void fp8_rows(const T* __restrict__ in, const float* __restrict__ given,
                                    fp8* __restrict__ out, float* __restrict__ scales, i64 rows, i64 size) {
  const i64 row = i64(blockIdx.x) * (blockDim.x / THREADS) + threadIdx.x / THREADS;
  if (row >= rows) return;
  in += row * size;
  out += row * size;
  const int first = threadIdx.x % THREADS * WIDTH;
  constexpr int kStep = THREADS * WIDTH;
#if PACKS <= KEPT  // The loops are unrolled, since an index of registers must be a constant.
#define UNROLLED _Pragma("unroll")
#define PACK(p) packs[p]
  Pack packs[PACKS];
  UNROLLED for (int p = 0; p < PACKS; ++p) {
    if (first + p * kStep < size) packs[p] = load(in + first + p * kStep);
  }
#else
#define UNROLLED
#define PACK(p) load(in + first + i64(p) * kStep)
#endif
  float largest = 0;
  if (given != nullptr) {
    largest = *given;
  } else {
    UNROLLED for (int p = 0; p < PACKS; ++p) {
      if (first + i64(p) * kStep >= size) continue;
      const Pack pack = PACK(p);
      for (int i = 0; i < WIDTH; ++i) largest = larger(largest, pack.at[i]);
    }
    largest = largest_of_row(largest);
  }
  if (first == 0) scales[row] = scale_of(largest);
  const float factor = factor_of(largest);
  UNROLLED for (int p = 0; p < PACKS; ++p) {
    if (first + i64(p) * kStep >= size) continue;
    *reinterpret_cast<Narrow*>(out + first + i64(p) * kStep) = narrow(PACK(p), factor);
  }
}
)cuda");

// The largest values of columns. A warp reads neighbouring columns of ROWS / 8 rows. Numbers that
// are not negative have the order of their bits.
constexpr GpuKernel kLargest("fp8_largest", kScales, R"cuda(
extern "C" __global__ void fp8_largest(const T* __restrict__ in, u32* largest, i64 rows, i64 size, i64 column_groups) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 first_column = i64(blockIdx.x) % column_groups * (32 * WIDTH);
  const i64 first_row = i64(blockIdx.x) / column_groups * ROWS;
  const i64 column = first_column + lane * WIDTH;
  float own[WIDTH] = {};
  for (i64 row = first_row + warp; row < first_row + ROWS && row < rows && column < size; row += 8) {
    const Pack pack = load(in + row * size + column);
    for (int i = 0; i < WIDTH; ++i) own[i] = larger(own[i], pack.at[i]);
  }
  __shared__ float parts[8][32 * WIDTH];
  for (int i = 0; i < WIDTH; ++i) parts[warp][lane * WIDTH + i] = own[i];
  __syncthreads();
  for (i64 i = threadIdx.x; i < 32 * WIDTH && first_column + i < size; i += blockDim.x) {
    float all = parts[0][i];
    for (int w = 1; w < 8; ++w) all = fmaxf(all, parts[w][i]);
    atomicMax(largest + first_column + i, __float_as_uint(all));
  }
}
)cuda");

// Columns as rows. A block has TILE_ROWS × TILE_COLUMNS values, which it turns in shared memory,
// four rows of a column in a word.
constexpr GpuKernel kColumns("fp8_columns", kScales, R"cuda(
struct alignas(16) Words { u32 at[4]; };

extern "C" __global__ void fp8_columns(const T* __restrict__ in, const float* __restrict__ largest, int largest_step,
                                       fp8* __restrict__ out, float* __restrict__ scales, i64 rows, i64 size,
                                       i64 column_groups) {
  __shared__ u32 tile[TILE_COLUMNS][TILE_ROWS / 4 + 1];  // Columns begin in different banks.
  __shared__ float factors[TILE_COLUMNS];
  const i64 first_column = i64(blockIdx.x) % column_groups * TILE_COLUMNS;
  const i64 first_row = i64(blockIdx.x) / column_groups * TILE_ROWS;
  if (threadIdx.x < TILE_COLUMNS && first_column + threadIdx.x < size) {
    const i64 column = first_column + threadIdx.x;
    const float own = largest[column * largest_step];
    factors[threadIdx.x] = factor_of(own);
    if (first_row == 0) scales[column] = scale_of(own);
  }
  __syncthreads();
  constexpr int kAcross = TILE_COLUMNS / WIDTH;
  const int across = threadIdx.x % kAcross * WIDTH;
  if (first_column + across < size) {
    for (int word = threadIdx.x / kAcross; word < TILE_ROWS / 4; word += blockDim.x / kAcross) {
      Pack packs[4] = {};
      for (int i = 0; i < 4; ++i) {  // All loads before the first use.
        const i64 row = first_row + word * 4 + i;
        if (row < rows) packs[i] = load(in + row * size + first_column + across);
      }
      for (int i = 0; i < WIDTH; ++i) {
        const float factor = factors[across + i];
        fp8 made[4];
        put(made[0], made[1], wide(packs[0].at[i]) * factor, wide(packs[1].at[i]) * factor);
        put(made[2], made[3], wide(packs[2].at[i]) * factor, wide(packs[3].at[i]) * factor);
        tile[across + i][word] =
            u32(made[0].bits) | u32(made[1].bits) << 8 | u32(made[2].bits) << 16 | u32(made[3].bits) << 24;
      }
    }
  }
  __syncthreads();
  constexpr int kLines = TILE_ROWS / LINE;
  for (int i = threadIdx.x; i < TILE_COLUMNS * kLines; i += blockDim.x) {
    const int column = i / kLines, row = i % kLines * LINE;
    if (first_column + column >= size || first_row + row >= rows) continue;
    fp8* const to = out + (first_column + column) * rows + first_row + row;
#if LINE == 16
    Words line;
    for (int j = 0; j < 4; ++j) line.at[j] = tile[column][row / 4 + j];
    *reinterpret_cast<Words*>(to) = line;
#else
    to->bits = u8(tile[column][row / 4] >> row % 4 * 8);
#endif
  }
}
)cuda");

constexpr GpuCapability kFirstWithFp8{.major = 8, .minor = 9};
constexpr int64_t kThreads = 256;
constexpr int64_t kWarp = 32;

std::string constants(const std::string& others = "") {
  return concat("-DLARGEST=", kLargestFp8, ".0f -DSMALLEST=", kSmallestFp8Row, "f ", others);
}

at::Tensor largest_of_columns(const at::Tensor& matrix, int64_t width) {
  constexpr int64_t kRowsOfBlock = 128;
  const int64_t rows = matrix.size(0);
  const int64_t size = matrix.size(1);
  const at::Tensor made = at::zeros({size}, matrix.options().dtype(at::kFloat));
  const int64_t groups = groups_of(size, kWarp * width);
  kLargest.launch(matrix.device(),
                  {.dtype = matrix.scalar_type(),
                   .width = width,
                   .constants = constants(concat("-DROWS=", kRowsOfBlock))},
                  {.blocks = groups * groups_of(rows, kRowsOfBlock), .threads = kThreads},
                  matrix.const_data_ptr(), made.mutable_data_ptr(), rows, size, groups);
  return made;
}

GpuFp8Rows empty_rows(const at::Tensor& like, int64_t rows, int64_t size) {
  return {at::empty({rows, size}, like.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({rows, 1}, like.options().dtype(at::kFloat))};
}

GpuFp8Rows rows_of(const at::Tensor& matrix, const at::Tensor& largest) {
  constexpr int64_t kWantedPacks = 8;  // Of a thread, so that it loads many at once.
  constexpr int64_t kKeptPacks = 16;
  const int64_t rows = matrix.size(0);
  const int64_t size = matrix.size(1);
  const int64_t width = pack_width(matrix, size);
  const int64_t packs = groups_of(size, width);
  const RowThreads threads = row_threads(groups_of(packs, kWantedPacks));
  GpuFp8Rows made = empty_rows(matrix, rows, size);
  kRows.launch(matrix.device(),
               {.dtype = matrix.scalar_type(),
                .width = width,
                .constants = constants(concat("-DTHREADS=", threads.of_row,
                                              " -DPACKS=", groups_of(packs, threads.of_row),
                                              " -DKEPT=", kKeptPacks))},
               {.blocks = groups_of(rows, threads.rows), .threads = threads.of_block()},
               matrix.const_data_ptr(), data_or_null(largest), made.values.mutable_data_ptr(),
               made.scales.mutable_data_ptr(), rows, size);
  return made;
}

GpuFp8Rows columns_of(const at::Tensor& matrix, const at::Tensor& largest) {
  constexpr int64_t kTileRows = 128;
  constexpr int64_t kTileColumns = 64;
  constexpr int64_t kLine = 16;
  const int64_t rows = matrix.size(0);
  const int64_t size = matrix.size(1);
  const int64_t width = pack_width(matrix, size);
  const at::Tensor of_columns = largest.defined() ? largest : largest_of_columns(matrix, width);
  GpuFp8Rows made = empty_rows(matrix, size, rows);
  const int64_t groups = groups_of(size, kTileColumns);
  kColumns.launch(
      matrix.device(),
      {.dtype = matrix.scalar_type(),
       .width = width,
       .constants = constants(concat("-DTILE_ROWS=", kTileRows, " -DTILE_COLUMNS=", kTileColumns,
                                     " -DLINE=", rows % kLine == 0 ? kLine : 1))},
      {.blocks = groups * groups_of(rows, kTileRows), .threads = kThreads}, matrix.const_data_ptr(),
      of_columns.const_data_ptr(), static_cast<int32_t>(largest.defined() ? 0 : 1),
      made.values.mutable_data_ptr(), made.scales.mutable_data_ptr(), rows, size, groups);
  return made;
}

}  // namespace

void check_fp8(GpuCapability capability) {
  TSR_CHECK(capability >= kFirstWithFp8, "products in float8 (--fp8) need a GPU of compute ",
            "capability ", kFirstWithFp8.major, ".", kFirstWithFp8.minor,
            " or newer, but this has ", capability.major, ".", capability.minor,
            "; leave --fp8 out, or use a newer GPU");
}

void check_fp8(at::Device device) {
  const std::optional<GpuCapability> capability = kernel::detail::capability(device);
  if (capability) check_fp8(*capability);
}

bool has_fp8_kernels(const at::Tensor& matrix) {
  return has_kernels(matrix) && kernel::detail::capability(matrix.device()) >= kFirstWithFp8 &&
         matrix.dim() == 2 && matrix.numel() > 0 &&
         (matrix.is_contiguous() || matrix.t().is_contiguous());
}

GpuFp8Rows fp8_rows_on_gpu(const at::Tensor& matrix, const at::Tensor& largest) {
  TSR_ASSERT(matrix.is_contiguous() || matrix.t().is_contiguous(),
             "rows or columns must be contiguous");
  return matrix.is_contiguous() ? rows_of(matrix, largest) : columns_of(matrix.t(), largest);
}

}  // namespace tessera
