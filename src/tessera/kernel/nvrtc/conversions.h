#pragma once

namespace tessera::kernel::detail {

/// conversions() of a GPU. NVRTC has no headers, in which CUDA has these types.
inline constexpr const char* kConversions = R"cuda(
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;

struct bf16 { u16 bits; };
struct fp16 { u16 bits; };
struct fp8 { u8 bits; };  // e4m3

__device__ __forceinline__ float wide(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ __forceinline__ float wide(fp16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ void put(bf16& to, float x) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
__device__ __forceinline__ void put(fp16& to, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
#if __CUDA_ARCH__ >= 890
// What is larger than 448 becomes 448.
__device__ __forceinline__ void put(fp8& to, fp8& next, float x, float y) {
  u16 both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(y), "f"(x));
  to.bits = u8(both);
  next.bits = u8(both >> 8);
}
#endif
)cuda";

}  // namespace tessera::kernel::detail
