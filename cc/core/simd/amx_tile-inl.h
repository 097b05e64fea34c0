// Products on tile registers (AMX), of operands from amx_pack-inl.h: the logits
// of rows of weights, and c += a b. Weights in bfloat16 are read where they
// lie.

#ifndef TF_HSM_CC_CORE_SIMD_AMX_TILE_INL_H_
#define TF_HSM_CC_CORE_SIMD_AMX_TILE_INL_H_

#include <cstdint>

#include "cc/core/simd/amx_pack-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Eight full tiles, for this thread, until destroyed: no other code of the
// thread pays for their state.
class TileSession {
 public:
  TileSession() {
    struct Config {
      uint8_t palette, start, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    };
    static constexpr Config config = {1,
                                      0,
                                      {},
                                      {64, 64, 64, 64, 64, 64, 64, 64},
                                      {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
  }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
  ~TileSession() { _tile_release(); }
};

// Tile loads come after the stores to what `p` points into: GCC 12 does not
// say that they read memory.
TF_HSM_INLINE void BeforeTileLoads(const void* p) {
  __asm__ volatile("" : : "r"(p) : "memory");
}

// Tiles 0 to 3 are the sums of a block of 16 `row_tiles` rows and 16
// `column_tiles` columns: (0, 0), (0, 1), (1, 0), (1, 1).
template <int row_tiles, int column_tiles>
TF_HSM_INLINE void ZeroSums() {
  _tile_zero(0);
  if constexpr (column_tiles > 1) _tile_zero(1);
  if constexpr (row_tiles > 1) _tile_zero(2);
  if constexpr (row_tiles > 1 && column_tiles > 1) _tile_zero(3);
}

template <int row_tiles, int column_tiles>
TF_HSM_INLINE void LoadSums(const float* c, int64_t stride) {
  const float* below = c + kTileLines * stride;
  _tile_loadd(0, c, stride * 4);
  if constexpr (column_tiles > 1) _tile_loadd(1, c + 16, stride * 4);
  if constexpr (row_tiles > 1) _tile_loadd(2, below, stride * 4);
  if constexpr (row_tiles > 1 && column_tiles > 1) {
    _tile_loadd(3, below + 16, stride * 4);
  }
}

template <int row_tiles, int column_tiles>
TF_HSM_INLINE void StoreSums(float* c, int64_t stride) {
  float* below = c + kTileLines * stride;
  _tile_stored(0, c, stride * 4);
  if constexpr (column_tiles > 1) _tile_stored(1, c + 16, stride * 4);
  if constexpr (row_tiles > 1) _tile_stored(2, below, stride * 4);
  if constexpr (row_tiles > 1 && column_tiles > 1) {
    _tile_stored(3, below + 16, stride * 4);
  }
}

// Adds a(i, j) b(j, d) for j < 32 depths. a is in kParts and b in `parts`; of
// two parts' product nothing is left in fp32 where their ranks add up to kParts
// or more.
template <int row_tiles, int column_tiles>
TF_HSM_INLINE void AddProduct(const uint16_t* a, const uint16_t* b, int parts,
                              int64_t depths) {
  const int64_t next_a = depths * kParts * kTileNumbers;
  const int64_t next_b = depths * parts * kTileNumbers;
  for (int64_t j = 0; j < depths; ++j, a += kParts * kTileNumbers) {
    for (int q = 0; q < parts; ++q, b += kTileNumbers) {
      _tile_loadd(6, b, kTileRowBytes);
      if constexpr (column_tiles > 1) _tile_loadd(7, b + next_b, kTileRowBytes);
      for (int p = 0; p < kParts - q; ++p) {
        const uint16_t* left = a + p * kTileNumbers;
        _tile_loadd(4, left, kTileRowBytes);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (column_tiles > 1) _tile_dpbf16ps(1, 4, 7);
        if constexpr (row_tiles > 1) {
          _tile_loadd(5, left + next_a, kTileRowBytes);
          _tile_dpbf16ps(2, 5, 6);
          if constexpr (column_tiles > 1) _tile_dpbf16ps(3, 5, 7);
        }
      }
    }
  }
}

// A left operand where it lies or, at the last rows or columns, copied.
struct LeftTile {
  const void* data;
  int64_t stride;
};
TF_HSM_INLINE LeftTile WeightTile(Matrix<const bfloat16> w, int64_t rows,
                                  int64_t left, uint16_t* copy) {
  if (rows >= kTileLines && left >= kTileDepth) return {w.data, w.stride * 2};
  for (int64_t i = 0; i < kTileLines; ++i) {
    const Words row = i < rows ? LoadWords(w.row(i), left) : Words{};
    __builtin_memcpy(copy + i * kTileDepth, &row, sizeof(row));
  }
  return {copy, kTileRowBytes};
}

// Adds the product of a bfloat16 matrix where it lies, `width` numbers deep.
// With `prefetch`, it prefetches as many bytes as it reads, kPrefetchBytes
// ahead.
template <int row_tiles, int column_tiles, bool prefetch>
TF_HSM_INLINE void AddProduct(Matrix<const bfloat16> w, int64_t rows,
                              const uint16_t* x, int parts, int64_t width) {
  alignas(64) uint16_t copies[2][kTileNumbers];
  const int64_t next = CountTiles(width, kTileDepth) * parts * kTileNumbers;
  for (int64_t d = 0; d < width; d += kTileDepth) {
    if constexpr (prefetch) {
      constexpr int64_t lines = row_tiles * kTileLines;
      PrefetchAhead<lines>(w.data + d * lines);
    }
    const LeftTile first =
        WeightTile({w.row(0) + d, w.stride}, rows, width - d, copies[0]);
    LeftTile second = {};
    if constexpr (row_tiles > 1) {
      second = WeightTile({w.row(kTileLines) + d, w.stride}, rows - kTileLines,
                          width - d, copies[1]);
    }
    BeforeTileLoads(copies);
    _tile_loadd(4, first.data, first.stride);
    if constexpr (row_tiles > 1) _tile_loadd(5, second.data, second.stride);
    for (int p = 0; p < parts; ++p, x += kTileNumbers) {
      _tile_loadd(6, x, kTileRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (row_tiles > 1) _tile_dpbf16ps(2, 5, 6);
      if constexpr (column_tiles > 1) {
        _tile_loadd(7, x + next, kTileRowBytes);
        _tile_dpbf16ps(1, 4, 7);
        if constexpr (row_tiles > 1) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
}

// z[m][k], of the sums: their transpose, as far as z goes.
template <int row_tiles, int column_tiles>
TF_HSM_INLINE void StoreLogits(int64_t rows, int64_t examples,
                               Matrix<float> z) {
  constexpr int64_t stride = 2 * kTileLines;
  alignas(64) float sums[stride * stride];
  StoreSums<row_tiles, column_tiles>(sums, stride);
  for (int c = 0; c < column_tiles; ++c) {
    for (int r = 0; r < row_tiles; ++r) {
      Bits32 lines[kTileLines];
      for (int i = 0; i < kTileLines; ++i) {
        lines[i] = LoadBits<Bits32>(sums + (r * kTileLines + i) * stride +
                                    c * kTileLines);
      }
      Transpose(lines);
      const int64_t columns = rows - r * kTileLines;
      for (int64_t i = 0; i < kTileLines; ++i) {
        const int64_t m = c * kTileLines + i;
        if (m >= examples) break;
        float* to = z.row(m) + r * kTileLines;
        const Floats line = BitCast<Floats>(lines[i]);
        columns >= 16 ? Store(to, line) : StorePartial(to, line, columns);
      }
    }
  }
}

// Calls with the numbers of tiles, as types, of a block with this many rows and
// columns left.
template <typename Call>
TF_HSM_INLINE void WithBlock(int64_t rows, int64_t columns, Call call) {
  auto with_rows = [&](auto row_tiles) {
    columns > kTileLines ? call(row_tiles, IntConstant<2>())
                         : call(row_tiles, IntConstant<1>());
  };
  rows > kTileLines ? with_rows(IntConstant<2>()) : with_rows(IntConstant<1>());
}

// The logits z[m][k] = x_m . w_k of `rows` rows of w where they lie; x from
// PackColumns<true>.
inline void LogitsOnTiles(Matrix<const bfloat16> w, int64_t rows,
                          const uint16_t* x, int parts, int64_t examples,
                          int64_t width, Matrix<float> z) {
  const int64_t tile = CountTiles(width, kTileDepth) * parts * kTileNumbers;
  for (int64_t k = 0; k < rows; k += 2 * kTileLines) {
    const Matrix<const bfloat16> panel = {w.row(k), w.stride};
    for (int64_t m = 0; m < examples; m += 2 * kTileLines) {
      WithBlock(rows - k, examples - m, [&](auto row_tiles, auto columns) {
        constexpr int height = row_tiles.value, across = columns.value;
        const uint16_t* right = x + m / kTileLines * tile;
        ZeroSums<height, across>();
        if (m == 0) {
          AddProduct<height, across, true>(panel, rows - k, right, parts,
                                           width);
        } else {
          AddProduct<height, across, false>(panel, rows - k, right, parts,
                                            width);
        }
        StoreLogits<height, across>(rows - k, examples - m,
                                    {z.row(m) + k, z.stride});
      });
    }
  }
}

// Those of fp32 weights, from PackLeft; x from PackColumns<false>.
inline void LogitsOnTiles(const uint16_t* w, int64_t rows, const uint16_t* x,
                          int parts, int64_t examples, int64_t width,
                          Matrix<float> z) {
  const int64_t depths = CountTiles(width, kTileDepth);
  for (int64_t k = 0; k < rows; k += 2 * kTileLines) {
    const uint16_t* left = w + k / kTileLines * depths * kParts * kTileNumbers;
    for (int64_t m = 0; m < examples; m += 2 * kTileLines) {
      WithBlock(rows - k, examples - m, [&](auto row_tiles, auto columns) {
        constexpr int height = row_tiles.value, across = columns.value;
        ZeroSums<height, across>();
        AddProduct<height, across>(
            left, x + m / kTileLines * depths * parts * kTileNumbers, parts,
            depths);
        StoreLogits<height, across>(rows - k, examples - m,
                                    {z.row(m) + k, z.stride});
      });
    }
  }
}

// c[i][d] (+)= sum_j a(i, j) b(j, d), a from PackLeft or PackFactors, b
// from PackRows. c has room for multiples of 16 rows and columns.
inline void ProductOnTiles(const uint16_t* a, const uint16_t* b, int parts,
                           int64_t height, int64_t depth, int64_t width,
                           bool add, Matrix<float> c) {
  const int64_t depths = CountTiles(depth, kTileDepth);
  BeforeTileLoads(c.data);
  for (int64_t d = 0; d < width; d += 2 * kTileLines) {
    const uint16_t* right = b + d / kTileLines * depths * parts * kTileNumbers;
    for (int64_t i = 0; i < height; i += 2 * kTileLines) {
      const uint16_t* left =
          a + i / kTileLines * depths * kParts * kTileNumbers;
      float* to = c.row(i) + d;
      WithBlock(height - i, width - d, [&](auto row_tiles, auto columns) {
        constexpr int rows = row_tiles.value, across = columns.value;
        add ? LoadSums<rows, across>(to, c.stride) : ZeroSums<rows, across>();
        AddProduct<rows, across>(left, right, parts, depths);
        StoreSums<rows, across>(to, c.stride);
      });
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_AMX_TILE_INL_H_
