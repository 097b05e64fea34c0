// Loads and stores of the element types, widened to their accumulators, and
// the functions of numbers that the kernels share. NaN stays NaN.

#ifndef TF_HSM_CC_CUDA_DEVICE_CONVERT_H_
#define TF_HSM_CC_CUDA_DEVICE_CONVERT_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/core/base/types.h"
#include "cc/cuda/device/device.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace tf_hsm::gpu {

// The element types whose products are summed in float32: all but double, for
// which there are no tensor cores, no kernels at hot groups and no TopK. All
// other entry points are made for each of TF_HSM_ELEMENT_TYPES.
#define TF_HSM_FLOAT_SUM_TYPES(X) X(float) X(bfloat16) X(half)
template <typename T>
constexpr bool kSumsInFloat = std::is_same_v<Accumulator<T>, float>;

TF_HSM_HOST_DEVICE uint32_t FloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TF_HSM_HOST_DEVICE float BitsFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

TF_HSM_HOST_DEVICE float Widen(float value) { return value; }
TF_HSM_HOST_DEVICE double Widen(double value) { return value; }
TF_HSM_HOST_DEVICE float Widen(bfloat16 value) {
  return BitsFloat(static_cast<uint32_t>(value.bits) << 16);
}

// Rounds to nearest even.
template <typename T>
TF_HSM_HOST_DEVICE T Narrow(Accumulator<T> value) {
  return value;
}
template <>
TF_HSM_HOST_DEVICE bfloat16 Narrow<bfloat16>(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return {rounded};
#endif
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  }
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

#ifdef __CUDACC__

TF_HSM_DEVICE float Widen(half value) {
  return __half2float(__ushort_as_half(value.bits));
}
template <>
TF_HSM_DEVICE half Narrow<half>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}

#else

inline float Widen(half value) {
  const uint32_t exponent = (value.bits >> 10) & 31;
  const uint32_t mantissa = value.bits & 1023;
  const float magnitude =
      exponent == 0    ? static_cast<float>(mantissa) * 0x1p-24f
      : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                       : BitsFloat((exponent + 112) << 23 | mantissa << 13);
  return value.bits & 0x8000 ? -magnitude : magnitude;
}
template <>
inline half Narrow<half>(float value) {
  const uint16_t sign = FloatBits(value) >> 31 << 15;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {0x7e00};
  if (magnitude >= 65520) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x1p-14f) {  // subnormal, or rounded up to the first normal
    return {static_cast<uint16_t>(
        sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)))};
  }
  int exponent;
  const float mantissa = std::frexp(magnitude, &exponent);
  const int bits = static_cast<int>(std::nearbyint(mantissa * 2048)) - 1024;
  return {static_cast<uint16_t>(sign + ((exponent + 14) << 10) + bits)};
}

#endif

// Two numbers of 16 bits in a word, the first one below.
template <typename T>
TF_HSM_DEVICE uint32_t Pack(T low, T high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

// Two numbers rounded to nearest even, in a word as of Pack.
template <typename T>
TF_HSM_DEVICE uint32_t NarrowPair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (std::is_same_v<T, bfloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return Pack(Narrow<T>(low), Narrow<T>(high));
#endif
}

TF_HSM_DEVICE float Exp(float value) { return expf(value); }
TF_HSM_DEVICE double Exp(double value) { return exp(value); }
// Within some units of the last place times the argument, 0 where the result is
// subnormal: for sums that are rounded to fewer bits.
TF_HSM_DEVICE float FastExp(float value) {
#ifdef __CUDACC__
  constexpr float kLog2E = 1.44269504f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value * kLog2E));
  return result;
#else
  return expf(value);
#endif
}
TF_HSM_DEVICE float Log(float value) { return logf(value); }
TF_HSM_DEVICE double Log(double value) { return log(value); }
// log(1 + value)
TF_HSM_DEVICE float Log1p(float value) { return log1pf(value); }
TF_HSM_DEVICE double Log1p(double value) { return log1p(value); }
TF_HSM_DEVICE float Tanh(float value) { return tanhf(value); }
TF_HSM_DEVICE double Tanh(double value) { return tanh(value); }
TF_HSM_HOST_DEVICE float Sqrt(float value) { return sqrtf(value); }
TF_HSM_HOST_DEVICE double Sqrt(double value) { return sqrt(value); }

TF_HSM_DEVICE float Abs(float value) { return fabsf(value); }
TF_HSM_DEVICE double Abs(double value) { return fabs(value); }

// The larger one; NaN counts as less than all.
TF_HSM_DEVICE float Max(float a, float b) { return fmaxf(a, b); }
TF_HSM_DEVICE double Max(double a, double b) { return fmax(a, b); }

// p = 1 / (1 + exp(-z)); returns -log(1 - p). No exponential overflows.
template <typename A>
TF_HSM_DEVICE A Sigmoid(A z, A* p) {
  const A e = Exp(-Abs(z));
  *p = (z > 0 ? A(1) : e) / (1 + e);
  return Max(z, A(0)) + Log1p(e);
}

// log(1 / (1 + exp(-z)))
template <typename A>
TF_HSM_DEVICE A LogSigmoid(A z) {
  A unused;
  return 0 - Sigmoid(-z, &unused);
}

// What to subtract before exp, given the largest logit: itself, unless that
// would make NaN of logits that are all minus infinity.
template <typename A>
TF_HSM_DEVICE A Shift(A max) {
  return max == -static_cast<A>(INFINITY) ? A(0) : max;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_CONVERT_H_
