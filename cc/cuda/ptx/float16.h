// Floating-point numbers of 16 bits.

#ifndef TF_HSM_CC_CUDA_PTX_FLOAT16_H_
#define TF_HSM_CC_CUDA_PTX_FLOAT16_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tf_hsm {
namespace ptx {

inline float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float Bfloat16ToFloat(uint16_t bits) {
  return BitsToFloat(uint32_t{bits} << 16);
}

inline float HalfToFloat(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else {
    magnitude = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return static_cast<float>(bits & 0x8000 ? -magnitude : magnitude);
}

// To nearest, ties to even.
inline uint16_t FloatToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(double{value});
  if (std::isnan(value)) return 0x7fff;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  int exponent;
  std::frexp(magnitude, &exponent);
  // Steps of the result: 2^-24 where it is subnormal.
  const int step = exponent < -13 ? -24 : exponent - 11;
  const double steps = std::nearbyint(std::ldexp(magnitude, -step));
  // 1,024 steps or more carry into the exponent by themselves.
  const int bits = static_cast<int>(steps) + 1024 * (step + 24);
  return static_cast<uint16_t>(sign | bits);
}

// To nearest, ties to even.
inline uint16_t FloatToBfloat16(float value) {
  if (std::isnan(value)) return 0x7fff;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_FLOAT16_H_
