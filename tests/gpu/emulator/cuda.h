// CUDA C++ for the compiler of a CPU: what the kernels use of it, and what nvrtc.cpp's
// conversions() does.
#pragma once

#include <math.h>

#include <utility>

#include "tests/gpu/emulator/machine.h"

extern "C" {
tessera::emulator::Machine* machine;  // Set by the emulator.
}

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
// Threads of a block run in turns, and blocks one after the other.
#define __shared__ static
#define threadIdx (machine->thread)
#define blockIdx (machine->block)
#define blockDim (machine->threads_of_block)
#define gridDim (machine->blocks)

#define __expf expf
inline float rsqrtf(float x) {
  return 1 / sqrtf(x);
}

inline float __fmul_rn(float x, float y) {
  return x * y;
}

inline void __syncthreads() {
  machine->synchronize_block();
}

template <class Value>
Value shuffled(Value mine, unsigned lane) {
  Value theirs;
  machine->shuffle(&mine, &theirs, sizeof(Value), lane);
  return theirs;
}
template <class Value>
Value __shfl_xor_sync(unsigned, Value mine, unsigned distance) {
  return shuffled(mine, (threadIdx.x % 32) ^ distance);
}
template <class Value>
Value __shfl_down_sync(unsigned, Value mine, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return shuffled(mine, lane + distance < 32 ? lane + distance : lane);
}

template <class To, class From>
To with_bits_of(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
inline float __int_as_float(unsigned bits) {
  return with_bits_of<float>(bits);
}
inline float __uint_as_float(unsigned bits) {
  return with_bits_of<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return with_bits_of<unsigned>(x);
}
inline unsigned atomicMax(unsigned* to, unsigned x) {
  return std::exchange(*to, x > *to ? x : *to);
}

using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;

struct bf16 {
  u16 bits;
};
struct fp16 {
  u16 bits;
};
struct fp8 {
  u8 bits;
};

inline float wide(bf16 x) {
  return __uint_as_float(u32(x.bits) << 16);
}
inline float wide(fp16 x) {
  return with_bits_of<_Float16>(x.bits);
}
inline void put(bf16& to, float x) {
  const u32 bits = __float_as_uint(x);
  to.bits = x != x ? 0x7fff : u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline void put(fp16& to, float x) {
  to.bits = with_bits_of<u16>(static_cast<_Float16>(x));
}

// Steps of e4m3 are 2^-9 below 2^-6, and an eighth of the power of two above.
inline u8 to_fp8(float x) {
  if (x != x) return 0x7f;
  const u8 sign = signbit(x) ? 0x80 : 0;
  const float size = fminf(fabsf(x), 448);
  int exponent = size == 0 ? -6 : ilogbf(size);
  if (exponent < -6) exponent = -6;
  const int eighths = int(rintf(ldexpf(size, 3 - exponent)));  // Up to 16.
  return sign | u8((exponent + 6) * 8 + eighths);
}
inline void put(fp8& to, fp8& next, float x, float y) {
  to.bits = to_fp8(x);
  next.bits = to_fp8(y);
}

// Arguments come as the driver takes them: an address for each.
template <class... Parameters, std::size_t... Indices>
void call_with(void (*kernel)(Parameters...), void** arguments, std::index_sequence<Indices...>) {
  kernel(*static_cast<std::remove_const_t<Parameters>*>(arguments[Indices])...);
}
template <class... Parameters>
void call_with(void (*kernel)(Parameters...), void** arguments) {
  call_with(kernel, arguments, std::index_sequence_for<Parameters...>());
}
