// Quantized rows as floats, on vectors.

#ifndef TF_HSM_CC_CORE_SIMD_DECODE_INL_H_
#define TF_HSM_CC_CORE_SIMD_DECODE_INL_H_

#include <cstdint>

#include "cc/core/base/quantized_rows.h"
#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

using Codes = VectorN<int8_t, kFloatLanes>;

// GCC makes many instructions of __builtin_convertvector for bytes.
TF_HSM_INLINE Ints32 Widen(Codes codes) {
#if defined(__AVX512F__)
  return BitCast<Ints32>(
      _mm512_maskz_cvtepi8_epi32(0xffff, BitCast<__m128i>(codes)));
#elif defined(__AVX2__)
  return BitCast<Ints32>(
      _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(BitCast<int64_t>(codes))));
#elif defined(__SSE2__)
  const __m128i bytes = _mm_cvtsi32_si128(BitCast<int32_t>(codes));
  const __m128i pairs = _mm_unpacklo_epi8(bytes, bytes);
  return BitCast<Ints32>(_mm_unpacklo_epi16(pairs, pairs)) >> 24;
#else
  return __builtin_convertvector(codes, Ints32);
#endif
}

// The next codes of a vector.
TF_HSM_INLINE Ints32 LoadCodes(const uint8_t* p) {
  return Widen(LoadBits<Codes>(p));
}

// The first `count` of them, and zeros. Reads no byte past them.
TF_HSM_INLINE Ints32 LoadPartialCodes(const uint8_t* p, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  return Widen(BitCast<Codes>(_mm_maskz_loadu_epi8(mask, p)));
#else
  Codes codes = {};
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<int8_t>(p[i]);
  return Widen(codes);
#endif
}

// out[i] = scale * value(code i), for i < count. Writes up to a vector more.
template <typename Value>
TF_HSM_INLINE void DecodeRun(const uint8_t* codes, int64_t count, float scale,
                             float* out, Value value) {
  const Floats factor = Splat<float>(scale);
  auto store = [=](int64_t i, Ints32 v) __attribute__((always_inline)) {
    Store(out + i, factor * __builtin_convertvector(value(v), Floats));
  };
  int64_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) {
    store(i, LoadCodes(codes + i));
  }
  if (i < count) store(i, LoadPartialCodes(codes + i, count - i));
}

// The numbers of one row. Writes up to a vector more.
inline void DecodeRow(const QuantizedRows& rows, const uint8_t* codes,
                      const float* scales, float* out) {
  for (int64_t first = 0; first < rows.width; first += rows.block) {
    const int64_t left = rows.width - first;
    const int64_t n = left < rows.block ? left : rows.block;
    const float scale = *scales++;
    if (rows.bits == 8) {
      DecodeRun(codes + first, n, scale, out + first,
                [](Ints32 v) __attribute__((always_inline)) { return v; });
      continue;
    }
    // The low halves may write into the place of the high ones.
    const int64_t half = (n + 1) / 2;
    const uint8_t* bytes = codes + first / 2;
    DecodeRun(bytes, half, scale, out + first,
              [](Ints32 v)
                  __attribute__((always_inline)) { return (v << 28) >> 28; });
    DecodeRun(bytes, n - half, scale, out + first + half,
              [](Ints32 v) __attribute__((always_inline)) { return v >> 4; });
  }
}

// Codes are asked for this many bytes before they are needed.
constexpr int64_t kCodePrefetchBytes = 4 << 10;

// out[r] = row r, for r < count; out has Padded(width) numbers more than that.
inline void DecodeRows(const QuantizedRows& rows, int64_t count, float* out,
                       int64_t stride) {
  const int64_t bytes = rows.RowBytes(), blocks = rows.NumBlocks();
  for (int64_t r = 0; r < count; ++r) {
    const uint8_t* codes = rows.codes + r * bytes;
    for (int64_t i = 0; i < bytes; i += 64) {
      __builtin_prefetch(codes + kCodePrefetchBytes + i, 0, 2);
    }
    DecodeRow(rows, codes, rows.scales + r * blocks, out + r * stride);
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_DECODE_INL_H_
