// Operands for tile registers (AMX): how numbers get into 16 x 32 bfloat16.
//
// tdpbf16ps multiplies bfloat16 numbers, exactly, and adds in fp32. A fp32
// number is the sum of three bfloat16 ones of 8 bits each, so that its product
// with a bfloat16 weight takes three instructions and has the errors of a sum
// in fp32, no more. The instruction takes subnormal numbers for zero, and the
// lower parts of a number below 2^-110 may be some: an absolute error that no
// softmax sees. An infinite weight times a lower part that is zero is NaN.
//
// A tile of ours is 1 KB, 16 rows of 32 bfloat16. As a left operand, a row
// holds 32 numbers of one row of the matrix; as a right one, 16 columns in
// pairs: (b(2i, j), b(2i + 1, j)).

#ifndef TF_HSM_CC_CORE_AMX_PACK_H_
#define TF_HSM_CC_CORE_AMX_PACK_H_

#include <cstdint>

#include "cc/core/tile.h"

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

using Words = VectorN<uint16_t, 32>;

// The first `count` of 32 numbers, if any; the others are zero. Reads no byte
// past them.
TF_HSM_INLINE Words LoadWords(const bfloat16* p, int64_t count) {
  if (count >= 32) return LoadBits<Words>(p);
  const uint32_t mask = count > 0 ? (1u << count) - 1 : 0;
  return BitCast<Words>(_mm512_maskz_loadu_epi16(mask, p));
}
TF_HSM_INLINE Floats LoadFloats(const float* p, int64_t count) {
  if (count >= 16) return Load(p);
  return count > 0 ? LoadPartial(p, count) : Floats{};
}

// What the upper 16 bits leave of numbers; of infinite ones, zero.
TF_HSM_INLINE Floats WithoutUpper(Floats v) {
  const Bits32 bits = BitCast<Bits32>(v);
  const Floats rest = v - BitCast<Floats>(bits & 0xffff0000u);
  return (bits & 0x7fffffff) == 0x7f800000 ? Floats{} : rest;
}

// The next part of 32 numbers, which become what it leaves of them.
TF_HSM_INLINE Words TakePart(Floats* a, Floats* b) {
  const Words part = __builtin_shufflevector(
      BitCast<Words>(*a), BitCast<Words>(*b), 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
      21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55,
      57, 59, 61, 63);
  *a = WithoutUpper(*a);
  *b = WithoutUpper(*b);
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

// Rows of fp32 as left operands [row tile][depth][part], or, `across`, as right
// operands whose columns are these rows, [row tile][depth][part] too.
template <bool across>
inline void PackParts(Matrix<const float> from, int64_t rows, int64_t depth,
                      int parts, uint16_t* to) {
  for (int64_t m = 0; m < rows; m += kTileLines) {
    for (int64_t d = 0; d < depth; d += kTileDepth) {
      Bits32 tiles[kParts][kTileLines];
      for (int64_t i = 0; i < kTileLines; ++i) {
        Floats a = {}, b = {};
        if (m + i < rows) {
          const float* row = from.row(m + i) + d;
          a = LoadFloats(row, depth - d);
          b = LoadFloats(row + 16, depth - d - 16);
        }
        for (int p = 0; p < parts; ++p) {
          tiles[p][i] = BitCast<Bits32>(TakePart(&a, &b));
        }
      }
      for (int p = 0; p < parts; ++p) {
        if constexpr (across) Transpose(tiles[p]);
        __builtin_memcpy(to, tiles[p], sizeof(tiles[p]));
        to += kTileNumbers;
      }
    }
  }
}

// Rows of weights as right operands [16 columns][32 rows].
inline void PackRows(Matrix<const bfloat16> w, int64_t rows, int64_t width,
                     uint16_t* to) {
  const int64_t depths = CountTiles(rows, kTileDepth);
  for (int64_t k = 0; k < depths * kTileDepth; k += 2) {
    uint16_t* pair = to + k / kTileDepth * kTileNumbers + k % kTileDepth * 16;
    for (int64_t d = 0; d < width; d += 32) {
      Words a = {}, b = {};
      if (k < rows) a = LoadWords(w.row(k) + d, width - d);
      if (k + 1 < rows) b = LoadWords(w.row(k + 1) + d, width - d);
      const Words low = __builtin_shufflevector(
          a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40,
          9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
      __builtin_memcpy(pair, &low, sizeof(low));
      pair += depths * kTileNumbers;
      if (d + 16 >= width) break;
      const Words high = __builtin_shufflevector(
          a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
          24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
      __builtin_memcpy(pair, &high, sizeof(high));
      pair += depths * kTileNumbers;
    }
  }
}

// Rows of inputs as right operands [16 columns][32 rows][part].
inline void PackInputs(Matrix<const float> x, int64_t rows, int64_t width,
                       int parts, uint16_t* to) {
  const int64_t step = CountTiles(rows, kTileDepth) * parts * kTileNumbers;
  for (int64_t m = 0; m < CountTiles(rows, kTileDepth) * kTileDepth; m += 2) {
    uint16_t* pair =
        to + m / kTileDepth * parts * kTileNumbers + m % kTileDepth * 16;
    for (int64_t d = 0; d < width; d += 16, pair += step) {
      Floats a = {}, b = {};
      if (m < rows) a = Load(x.row(m) + d);
      if (m + 1 < rows) b = Load(x.row(m + 1) + d);
      for (int p = 0; p < parts; ++p) {
        const Bits32 upper = BitCast<Bits32>(b) & 0xffff0000u;
        const Bits32 both = upper | (BitCast<Bits32>(a) >> 16);
        __builtin_memcpy(pair + p * kTileNumbers, &both, sizeof(both));
        a = WithoutUpper(a);
        b = WithoutUpper(b);
      }
    }
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
      for (int64_t i = 0; i < kTileLines; ++i) {
        Floats a = BitCast<Floats>(halves[0][i]);
        Floats b = BitCast<Floats>(halves[1][i]);
        for (int p = 0; p < kParts; ++p) {
          const Words part = TakePart(&a, &b);
          __builtin_memcpy(to + p * kTileNumbers + i * kTileDepth, &part,
                           sizeof(part));
        }
      }
      to += kParts * kTileNumbers;
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_AMX_PACK_H_
