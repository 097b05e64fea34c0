// One SIMD vector, as wide as the instruction set that this file is compiled
// for, in the compiler's own vector types: no intrinsics but masked loads and
// stores.
//
// Everything lives in a namespace named after the ISA (TF_HSM_ISA), since the
// same source is compiled once per ISA into one library: a shared inline
// function could end up as AVX-512 code on a machine without it. For the same
// reason the standard library's templates stay out, but for std::vector's
// element access in Plan and VectorPlan, which is inlined.

#ifndef TF_HSM_CC_CORE_SIMD_VECTOR_INL_H_
#define TF_HSM_CC_CORE_SIMD_VECTOR_INL_H_

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cc/core/base/types.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <typename S, int lanes>
struct VectorOf {
  typedef S type __attribute__((vector_size(lanes * sizeof(S))));
};
template <typename S, int lanes>
using VectorN = typename VectorOf<S, lanes>::type;

// Lanes of a full vector of accumulators.
template <typename A>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));
template <typename A>
using Vector = VectorN<A, kLanes<A>>;

#define TF_HSM_INLINE inline __attribute__((always_inline))

// An integer as a type, to choose a template's argument in a generic lambda.
template <int n>
struct IntConstant {
  static constexpr int value = n;
};

template <typename V, typename S>
TF_HSM_INLINE V LoadBits(const S* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}

template <typename V, typename U>
TF_HSM_INLINE V BitCast(U u) {
  static_assert(sizeof(V) == sizeof(U), "BitCast keeps the size");
  V v;
  __builtin_memcpy(&v, &u, sizeof(V));
  return v;
}

// --- 16-bit floats <-> float, lane by lane -----------------------------------

constexpr int kFloatLanes = kLanes<float>;
using Bits16 = VectorN<uint16_t, kFloatLanes>;
using Bits32 = VectorN<uint32_t, kFloatLanes>;
using Ints32 = VectorN<int32_t, kFloatLanes>;
using Floats = VectorN<float, kFloatLanes>;

TF_HSM_INLINE Floats Widen(Bits16 v, bfloat16) {
  return BitCast<Floats>(__builtin_convertvector(v, Bits32) << 16);
}

// No intermediate is subnormal: threads differ in whether they flush those.
TF_HSM_INLINE Floats Widen(Bits16 v, half) {
  const Bits32 bits = __builtin_convertvector(v, Bits32);
  const Bits32 magnitude = bits & 0x7fff;
  const Bits32 normal = (magnitude << 13) + (112u << 23);
  const Bits32 special = (magnitude << 13) | 0x7f800000;
  const Bits32 subnormal = BitCast<Bits32>(
      __builtin_convertvector(BitCast<Ints32>(magnitude), Floats) * 0x1p-24f);
  const Bits32 finite = magnitude < 0x400 ? subnormal : normal;
  const Bits32 result = magnitude >= 0x7c00 ? special : finite;
  return BitCast<Floats>(result | ((bits & 0x8000) << 16));
}

TF_HSM_INLINE Bits16 Narrow(Floats v, bfloat16) {
  const Bits32 bits = BitCast<Bits32>(v);
  const Bits32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const Bits32 nan = bits | 0x400000;
  const Bits32 is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return __builtin_convertvector((is_nan ? nan : rounded) >> 16, Bits16);
}

TF_HSM_INLINE Bits16 Narrow(Floats v, half) {
  const Bits32 bits = BitCast<Bits32>(v);
  const Bits32 magnitude = bits & 0x7fffffff;
  const Bits32 zero = {};
  const Bits32 infinity = zero + 0x7c00;
  const Bits32 nan = zero + 0x7e00;
  // At and above 2^16: infinity or NaN.
  const Bits32 special = magnitude > 0x7f800000 ? nan : infinity;
  // Below 2^-14: the sum with 0.5 rounds the mantissa where a subnormal ends.
  const Bits32 small =
      BitCast<Bits32>(BitCast<Floats>(magnitude) + 0.5f) - 0x3f000000;
  const Bits32 normal =
      (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const Bits32 finite = magnitude < 0x38800000 ? small : normal;
  const Bits32 result = magnitude >= 0x47800000 ? special : finite;
  return __builtin_convertvector(result | ((bits >> 16) & 0x8000), Bits16);
}

// --- loads and stores: memory of type T, vectors of its accumulator ----------

TF_HSM_INLINE Floats Load(const float* p) { return LoadBits<Floats>(p); }
TF_HSM_INLINE Vector<double> Load(const double* p) {
  return LoadBits<Vector<double>>(p);
}
template <typename T>
TF_HSM_INLINE Floats Load(const T* p) {
  return Widen(LoadBits<Bits16>(p), T());
}

// The first `count` lanes, 0 < count < lanes; the others are zero. Reads no
// byte past them.
template <typename T>
TF_HSM_INLINE auto LoadPartial(const T* p, int64_t count) {
  T padded[kLanes<Accumulator<T>>] = {};
  __builtin_memcpy(padded, p, count * sizeof(T));
  return Load(padded);
}
#if defined(__AVX2__) && !defined(__AVX512F__)
// The masks of `count` lanes begin `lanes - count` before the zeros.
constexpr int32_t kLaneMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
TF_HSM_INLINE __m256i LaneMask(int64_t lanes, int64_t count, int64_t bytes) {
  return BitCast<__m256i>(
      LoadBits<VectorN<int32_t, 8>>(kLaneMasks + (lanes - count) * bytes / 4));
}
TF_HSM_INLINE Floats LoadPartial(const float* p, int64_t count) {
  return BitCast<Floats>(_mm256_maskload_ps(p, LaneMask(8, count, 4)));
}
TF_HSM_INLINE Vector<double> LoadPartial(const double* p, int64_t count) {
  return BitCast<Vector<double>>(_mm256_maskload_pd(p, LaneMask(4, count, 8)));
}
#endif
#if defined(__AVX512F__)
TF_HSM_INLINE Floats LoadPartial(const float* p, int64_t count) {
  return BitCast<Floats>(
      _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p));
}
TF_HSM_INLINE Vector<double> LoadPartial(const double* p, int64_t count) {
  return BitCast<Vector<double>>(
      _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), p));
}
#endif

template <typename T>
TF_HSM_INLINE void Store(T* p, Floats v) {
  const Bits16 bits = Narrow(v, T());
  __builtin_memcpy(p, &bits, sizeof(bits));
}
TF_HSM_INLINE void Store(float* p, Floats v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
TF_HSM_INLINE void Store(double* p, Vector<double> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

template <typename T>
TF_HSM_INLINE void StorePartial(T* p, Vector<Accumulator<T>> v, int64_t count) {
  T padded[kLanes<Accumulator<T>>];
  Store(padded, v);
  __builtin_memcpy(p, padded, count * sizeof(T));
}
#if defined(__AVX2__) && !defined(__AVX512F__)
TF_HSM_INLINE void StorePartial(float* p, Floats v, int64_t count) {
  _mm256_maskstore_ps(p, LaneMask(8, count, 4), BitCast<__m256>(v));
}
TF_HSM_INLINE void StorePartial(double* p, Vector<double> v, int64_t count) {
  _mm256_maskstore_pd(p, LaneMask(4, count, 8), BitCast<__m256d>(v));
}
#endif
#if defined(__AVX512F__)
TF_HSM_INLINE void StorePartial(float* p, Floats v, int64_t count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1),
                        BitCast<__m512>(v));
}
TF_HSM_INLINE void StorePartial(double* p, Vector<double> v, int64_t count) {
  _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << count) - 1),
                        BitCast<__m512d>(v));
}
#endif

// Writes a vector past the caches; p is aligned to kVectorBytes. StreamFence
// orders such writes before later ones.
TF_HSM_INLINE void Stream(float* p, Floats v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, BitCast<__m512>(v));
#elif defined(__AVX2__)
  _mm256_stream_ps(p, BitCast<__m256>(v));
#elif defined(__SSE2__)
  _mm_stream_ps(p, BitCast<__m128>(v));
#else
  Store(p, v);
#endif
}
TF_HSM_INLINE void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// --- arithmetic --------------------------------------------------------------

template <typename A>
TF_HSM_INLINE Vector<A> Splat(A a) {
  return a - Vector<A>{};  // 0 + a is not a for -0, and would cost a sum
}

TF_HSM_INLINE Floats Sqrt(Floats v) {
#if defined(__AVX512F__)
  return BitCast<Floats>(_mm512_maskz_sqrt_ps(0xffff, BitCast<__m512>(v)));
#elif defined(__AVX2__)
  return BitCast<Floats>(_mm256_sqrt_ps(BitCast<__m256>(v)));
#elif defined(__SSE2__)
  return BitCast<Floats>(_mm_sqrt_ps(BitCast<__m128>(v)));
#else
  for (int i = 0; i < kFloatLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}
TF_HSM_INLINE Vector<double> Sqrt(Vector<double> v) {
#if defined(__AVX512F__)
  return BitCast<Vector<double>>(
      _mm512_maskz_sqrt_pd(0xff, BitCast<__m512d>(v)));
#elif defined(__AVX2__)
  return BitCast<Vector<double>>(_mm256_sqrt_pd(BitCast<__m256d>(v)));
#elif defined(__SSE2__)
  return BitCast<Vector<double>>(_mm_sqrt_pd(BitCast<__m128d>(v)));
#else
  for (int i = 0; i < kLanes<double>; ++i) v[i] = __builtin_sqrt(v[i]);
  return v;
#endif
}

// Folds a vector to four lanes, each the sum of every fourth lane.
template <typename A>
TF_HSM_INLINE VectorN<A, 4> FoldToFour(VectorN<A, 4> v) {
  return v;
}
template <typename A>
TF_HSM_INLINE VectorN<A, 4> FoldToFour(VectorN<A, 8> v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) +
         __builtin_shufflevector(v, v, 4, 5, 6, 7);
}
template <typename A>
TF_HSM_INLINE VectorN<A, 4> FoldToFour(VectorN<A, 16> v) {
  return FoldToFour<A>(
      __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
template <typename A>
TF_HSM_INLINE VectorN<A, 4> FoldToFour(VectorN<A, 2> v) {
  return __builtin_shufflevector(v, VectorN<A, 2>{}, 0, 1, 2, 3);
}

#if defined(__AVX512F__)
// Each sum of a blend and a shuffle halves the lanes to add: half as many
// shuffles as folding each vector alone.
TF_HSM_INLINE VectorN<float, 4> SumLanesOf(Floats a, Floats b, Floats c,
                                           Floats d) {
  auto halve = [](Floats u, Floats v) __attribute__((always_inline)) {
    return __builtin_shufflevector(u, v, 0, 1, 18, 19, 4, 5, 22, 23, 8, 9, 26,
                                   27, 12, 13, 30, 31) +
           __builtin_shufflevector(u, v, 2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24,
                                   25, 14, 15, 28, 29);
  };
  const Floats ac = halve(a, c), bd = halve(b, d);
  return FoldToFour<float>(
      __builtin_shufflevector(ac, bd, 0, 17, 2, 19, 4, 21, 6, 23, 8, 25, 10, 27,
                              12, 29, 14, 31) +
      __builtin_shufflevector(ac, bd, 1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26,
                              13, 28, 15, 30));
}
#endif

// The sums of the lanes of four vectors, as one vector.
template <typename A>
TF_HSM_INLINE VectorN<A, 4> SumLanes(Vector<A> a, Vector<A> b, Vector<A> c,
                                     Vector<A> d) {
#if defined(__AVX512F__)
  if constexpr (sizeof(A) == sizeof(float)) return SumLanesOf(a, b, c, d);
#endif
  const auto fa = FoldToFour<A>(a), fb = FoldToFour<A>(b);
  const auto fc = FoldToFour<A>(c), fd = FoldToFour<A>(d);
  const auto ab = __builtin_shufflevector(fa, fb, 0, 4, 1, 5) +
                  __builtin_shufflevector(fa, fb, 2, 6, 3, 7);
  const auto cd = __builtin_shufflevector(fc, fd, 0, 4, 1, 5) +
                  __builtin_shufflevector(fc, fd, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
         __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
// In the same order, so that equal rows get equal sums wherever they lie.
template <typename A>
TF_HSM_INLINE A SumLanes(Vector<A> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(A) == sizeof(float)) {
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14,
                                 15, 12, 13);
    v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13,
                                 12, 15, 14);
    return FoldToFour<A>(v)[0];
  }
#endif
  const auto f = FoldToFour<A>(v);
  return (f[0] + f[2]) + (f[1] + f[3]);
}
template <typename A>
TF_HSM_INLINE A MaxLanes(Vector<A> v) {
  A lanes[kLanes<A>];
  Store(lanes, v);
#pragma GCC unroll 8
  for (int half = kLanes<A> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) {
      lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
    }
  }
  return lanes[0];
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_VECTOR_INL_H_
