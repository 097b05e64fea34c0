// exp, log and tanh of the lanes of a vector, to a few units in the last place.

#ifndef TF_HSM_CC_CORE_SIMD_EXP_LOG_INL_H_
#define TF_HSM_CC_CORE_SIMD_EXP_LOG_INL_H_

#include <cstdint>

#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// exp(x) for x <= 0 to 2 units in the last place; 0 where the result would be
// subnormal; NaN for NaN.
template <typename A>
struct ExpOf;
template <>
struct ExpOf<float> {
  using Int = int32_t;
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr int kDegree = 7, kLogTerms = 5;
  static constexpr float kLowest = -87.3f;
  static constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: n * it is exact
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kRound = 0x1.8p23f;
};
template <>
struct ExpOf<double> {
  using Int = int64_t;
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr int kDegree = 13, kLogTerms = 11;
  static constexpr double kLowest = -708.3;
  static constexpr double kLn2High = 0x1.62e42fefap-1;
  static constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
  static constexpr double kRound = 0x1.8p52;
};

template <typename A>
TF_HSM_INLINE Vector<A> Exp(Vector<A> x) {
  using C = ExpOf<A>;
  using Ints = VectorN<typename C::Int, kLanes<A>>;
  // 1/i!, i = 0 .. 13: Taylor's remainder on |r| <= ln(2)/2 is below rounding.
  constexpr double kInverseFactorial[] = {1.0,
                                          1.0,
                                          1.0 / 2,
                                          1.0 / 6,
                                          1.0 / 24,
                                          1.0 / 120,
                                          1.0 / 720,
                                          1.0 / 5040,
                                          1.0 / 40320,
                                          1.0 / 362880,
                                          1.0 / 3628800,
                                          1.0 / 39916800,
                                          1.0 / 479001600,
                                          1.0 / 6227020800.0};
  const Vector<A> lowest = Splat<A>(C::kLowest);
  const Vector<A> bounded = x < lowest ? lowest : x;
  // Adding 1.5 x 2^mantissa rounds to an integer and leaves it in the low bits.
  const Vector<A> shifted =
      bounded * static_cast<A>(1.44269504088896340736) + C::kRound;
  const Vector<A> n = shifted - C::kRound;
  const Vector<A> r = (bounded - n * C::kLn2High) - n * C::kLn2Low;
  Vector<A> poly = Splat<A>(static_cast<A>(kInverseFactorial[C::kDegree]));
#pragma GCC unroll 16
  for (int i = C::kDegree - 1; i >= 0; --i) {
    poly = poly * r + static_cast<A>(kInverseFactorial[i]);
  }
  const Ints exponent =
      BitCast<Ints>(shifted) - BitCast<Ints>(Splat<A>(C::kRound)) + C::kBias;
  const Vector<A> result =
      poly * BitCast<Vector<A>>(exponent << C::kMantissaBits);
  return x < lowest ? Vector<A>{} : result;
}

// log(x) for normal x > 0 to 2 units in the last place; NaN for all else.
template <typename A>
TF_HSM_INLINE Vector<A> Log(Vector<A> x) {
  using C = ExpOf<A>;
  using Int = typename C::Int;
  using Ints = VectorN<Int, kLanes<A>>;
  constexpr A kSqrtHalf = static_cast<A>(0.70710678118654752440);
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)).
  const Int half_bits = BitCast<Int>(kSqrtHalf);
  const Ints bits = BitCast<Ints>(x);
  const Ints exponent = (bits - half_bits) >> C::kMantissaBits;
  const Vector<A> m = BitCast<Vector<A>>(bits - (exponent << C::kMantissaBits));
  const Vector<A> n = __builtin_convertvector(exponent, Vector<A>);
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
  const Vector<A> s = (m - 1) / (m + 1);
  const Vector<A> s2 = s * s;
  Vector<A> series = {};
#pragma GCC unroll 16
  for (int i = C::kLogTerms; i > 0; --i) {
    series = (series + static_cast<A>(1.0 / (2 * i + 1))) * s2;
  }
  const Vector<A> result =
      n * C::kLn2High + (n * C::kLn2Low + (2 * s + 2 * s * series));
  return x > 0 ? result : Splat<A>(static_cast<A>(__builtin_nan("")));
}

// tanh(x) to 4 units in the last place; NaN for NaN. Near zero it is the
// rational function of the Cephes library (S. L. Moshier), elsewhere
// (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)).
template <typename A>
TF_HSM_INLINE Vector<A> Tanh(Vector<A> x) {
  const Vector<A> size = x < 0 ? -x : x;
  const Vector<A> e = Exp<A>(-2 * size);
  const Vector<A> far = (1 - e) / (1 + e);
  const Vector<A> x2 = x * x;
  const Vector<A> p = (static_cast<A>(-9.64399179425052238628e-1) * x2 +
                       static_cast<A>(-9.92877231001918586564e1)) *
                          x2 +
                      static_cast<A>(-1.61468768441708447952e3);
  const Vector<A> q = ((x2 + static_cast<A>(1.12811678491632931402e2)) * x2 +
                       static_cast<A>(2.23548839060100448583e3)) *
                          x2 +
                      static_cast<A>(4.84406305325125486048e3);
  const Vector<A> near = x + x * x2 * (p / q);
  return size < static_cast<A>(0.625) ? near : x < 0 ? -far : far;
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_EXP_LOG_INL_H_
