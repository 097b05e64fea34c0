// Operands for tile registers (AMX): how numbers get into 16 x 32 bfloat16.
//
// tdpbf16ps multiplies bfloat16 numbers, exactly, and adds in fp32. A fp32
// number is the sum of three bfloat16 ones of 8 bits each, so that its product
// with a bfloat16 weight takes three instructions, and with a fp32 weight the
// six whose parts matter, with the errors of a sum in fp32. The instruction
// takes subnormal numbers for zero, and the lower parts of a number below
// 2^-110 may be some: an absolute error that no softmax sees. An infinite
// weight times a lower part that is zero is NaN.
//
// A tile of ours is 1 KB, 16 rows of 32 bfloat16, as 16 pairs. As a left
// operand, a row is one row of the matrix; as a right one, each of its 16
// columns has a pair in each row. A tile is 32 numbers deep, and a pair holds
// (i, i + 16) of them: which two does not matter as long as both operands
// agree. Only bfloat16 weights that are read where they lie have (2i, 2i + 1),
// and so must the inputs that they meet.

#ifndef TF_HSM_CC_CORE_SIMD_AMX_PACK_INL_H_
#define TF_HSM_CC_CORE_SIMD_AMX_PACK_INL_H_

#include <cstdint>

#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

constexpr int64_t kTileLines = 16;     // rows, and fp32 columns
constexpr int64_t kTileDepth = 32;     // bfloat16 numbers of a row
constexpr int64_t kTileNumbers = 512;  // bfloat16 numbers
constexpr int64_t kTileRowBytes = 64;
constexpr int kParts = 3;  // that a fp32 number may have

constexpr int64_t CountTiles(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

// The stride of sums of this width: 16 rows of a tile lie in as many sets of
// the first cache.
constexpr int64_t SpreadStride(int64_t width) {
  return CountTiles(width, 32) * 32 + 16;
}

using Words = VectorN<uint16_t, 32>;

// The first `count` of 32 numbers, if any; the others are zero. Reads no byte
// past them.
TF_HSM_INLINE Words LoadWords(const bfloat16* p, int64_t count) {
  if (count >= 32) return LoadBits<Words>(p);
  const uint32_t mask = count > 0 ? (1u << count) - 1 : 0;
  return BitCast<Words>(_mm512_maskz_loadu_epi16(mask, p));
}
template <typename Bits>
TF_HSM_INLINE void StoreBits(uint16_t* p, Bits bits) {
  __builtin_memcpy(p, &bits, sizeof(bits));
}
TF_HSM_INLINE Floats LoadFloats(const float* p, int64_t count) {
  if (count >= 16) return Load(p);
  return count > 0 ? LoadPartial(p, count) : Floats{};
}

// What the upper 16 bits leave of numbers; of infinite ones zero or, where none
// is expected, NaN.
template <bool infinite>
TF_HSM_INLINE Floats WithoutUpper(Floats v) {
  const Bits32 bits = BitCast<Bits32>(v);
  const Floats rest = v - BitCast<Floats>(bits & 0xffff0000u);
  return infinite && (bits & 0x7fffffff) == 0x7f800000 ? Floats{} : rest;
}

// The next part of 16 pairs (a, b), which become what it leaves of them.
template <bool infinite>
TF_HSM_INLINE Bits32 TakePart(Floats* a, Floats* b) {
  const Bits32 part =
      (BitCast<Bits32>(*b) & 0xffff0000u) | (BitCast<Bits32>(*a) >> 16);
  *a = WithoutUpper<infinite>(*a);
  *b = WithoutUpper<infinite>(*b);
  return part;
}

// The parts that these numbers need: one if they are bfloat16, two if half.
inline int CountParts(Matrix<const float> x, int64_t rows, int64_t padded) {
  Bits32 all = {};
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t d = 0; d < padded; d += kFloatLanes) {
      all |= LoadBits<Bits32>(x.row(m) + d);
    }
  }
  uint32_t bits = 0;
  for (int i = 0; i < kFloatLanes; ++i) bits |= all[i];
  return (bits & 0xffff) == 0 ? 1 : (bits & 0xff) == 0 ? 2 : kParts;
}

// r[i][j] <-> r[j][i], by four perfect shuffles.
TF_HSM_INLINE void Transpose(Bits32* r) {
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
    Bits32 t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = __builtin_shufflevector(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3,
                                         19, 4, 20, 5, 21, 6, 22, 7, 23);
      t[2 * i + 1] =
          __builtin_shufflevector(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                  12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = t[i];
  }
}

// Asks for `lines` cache lines kPrefetchBytes after `p`.
template <int lines>
TF_HSM_INLINE void PrefetchAhead(const void* p) {
  const char* ahead = static_cast<const char*>(p) + kPrefetchBytes;
#pragma GCC unroll 32
  for (int i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64, 0, 2);
}

// Rows of fp32, kParts each, as left operands [row tile][depth][part]. With
// `prefetch`, asks for as many bytes as it reads, kPrefetchBytes ahead.
template <bool prefetch>
void PackLeft(Matrix<const float> from, int64_t rows, int64_t depth,
              uint16_t* to) {
  for (int64_t m = 0; m < rows; m += kTileLines) {
    for (int64_t d = 0; d < depth; d += kTileDepth) {
      if constexpr (prefetch) {
        PrefetchAhead<2 * kTileLines>(from.row(m) + d * kTileLines);
      }
      for (int64_t i = 0; i < kTileLines; ++i, to += kTileDepth) {
        Floats a = {}, b = {};
        if (m + i < rows) {
          const float* row = from.row(m + i) + d;
          a = LoadFloats(row, depth - d);
          b = LoadFloats(row + 16, depth - d - 16);
        }
        for (int p = 0; p < kParts; ++p) {
          StoreBits(to + p * kTileNumbers, TakePart<false>(&a, &b));
        }
      }
      to += (kParts - 1) * kTileNumbers;
    }
  }
}

// Rows of inputs as right operands whose columns they are, [row tile][depth]
// [part]; `natural` for bfloat16 weights where they lie.
template <bool natural>
void PackColumns(Matrix<const float> x, int64_t rows, int64_t depth, int parts,
                 uint16_t* to) {
  for (int64_t m = 0; m < rows; m += kTileLines) {
    for (int64_t d = 0; d < depth; d += kTileDepth) {
      Bits32 tiles[kParts][kTileLines];
      for (int64_t i = 0; i < kTileLines; ++i) {
        Floats a = {}, b = {};
        if (m + i < rows) {
          const float* row = x.row(m + i) + d;
          a = LoadFloats(row, depth - d);
          b = LoadFloats(row + 16, depth - d - 16);
        }
        if constexpr (natural) {
          const Floats low = a;
          a = __builtin_shufflevector(low, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
                                      20, 22, 24, 26, 28, 30);
          b = __builtin_shufflevector(low, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
                                      21, 23, 25, 27, 29, 31);
        }
        for (int p = 0; p < parts; ++p) tiles[p][i] = TakePart<true>(&a, &b);
      }
      for (int p = 0; p < parts; ++p, to += kTileNumbers) {
        Transpose(tiles[p]);
        __builtin_memcpy(to, tiles[p], sizeof(tiles[p]));
      }
    }
  }
}

// Rows of bfloat16 as right operands [16 columns][32 rows].
inline void PackRows(Matrix<const bfloat16> w, int64_t rows, int64_t width,
                     uint16_t* to) {
  const int64_t depths = CountTiles(rows, kTileDepth);
  for (int64_t k = 0; k < rows; k += kTileDepth) {
    for (int64_t i = k; i < k + kTileLines; ++i, to += kTileDepth) {
      uint16_t* pairs = to;
      for (int64_t d = 0; d < width; d += 32) {
        Words a = {}, b = {};
        if (i < rows) a = LoadWords(w.row(i) + d, width - d);
        if (i + 16 < rows) b = LoadWords(w.row(i + 16) + d, width - d);
        StoreBits(pairs, __builtin_shufflevector(
                             a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6,
                             38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44,
                             13, 45, 14, 46, 15, 47));
        pairs += depths * kTileNumbers;
        if (d + 16 >= width) break;
        StoreBits(pairs, __builtin_shufflevector(
                             a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21,
                             53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59,
                             28, 60, 29, 61, 30, 62, 31, 63));
        pairs += depths * kTileNumbers;
      }
    }
  }
}

// Rows of fp32 as right operands [16 columns][32 rows][part].
template <bool infinite>
void PackRows(Matrix<const float> from, int64_t rows, int64_t width, int parts,
              uint16_t* to) {
  const int64_t step = CountTiles(rows, kTileDepth) * parts * kTileNumbers;
  for (int64_t m = 0; m < rows; m += kTileDepth) {
    for (int64_t i = m; i < m + kTileLines; ++i, to += kTileDepth) {
      uint16_t* pairs = to;
      for (int64_t d = 0; d < width; d += 16, pairs += step) {
        Floats a = {}, b = {};
        if (i < rows) a = LoadFloats(from.row(i) + d, width - d);
        if (i + 16 < rows) b = LoadFloats(from.row(i + 16) + d, width - d);
        for (int p = 0; p < parts; ++p) {
          StoreBits(pairs + p * kTileNumbers, TakePart<infinite>(&a, &b));
        }
      }
    }
    to += (parts - 1) * kTileNumbers;
  }
}

// dz [examples, rows] as left operands, transposed: [row tile][32 examples]
// [part].
inline void PackFactors(Matrix<const float> dz, int64_t examples, int64_t rows,
                        uint16_t* to) {
  for (int64_t k = 0; k < rows; k += kTileLines) {
    for (int64_t m = 0; m < examples; m += kTileDepth) {
      Bits32 halves[2][kTileLines];
      for (int64_t i = 0; i < kTileDepth; ++i) {
        Floats line = {};
        if (m + i < examples) line = LoadFloats(dz.row(m + i) + k, rows - k);
        halves[i / kTileLines][i % kTileLines] = BitCast<Bits32>(line);
      }
      Transpose(halves[0]);
      Transpose(halves[1]);
      for (int64_t i = 0; i < kTileLines; ++i, to += kTileDepth) {
        Floats a = BitCast<Floats>(halves[0][i]);
        Floats b = BitCast<Floats>(halves[1][i]);
        for (int p = 0; p < kParts; ++p) {
          StoreBits(to + p * kTileNumbers, TakePart<true>(&a, &b));
        }
      }
      to += (kParts - 1) * kTileNumbers;
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_AMX_PACK_INL_H_
