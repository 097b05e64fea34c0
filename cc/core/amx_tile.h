// Two products on tile registers (AMX), of operands from amx_pack.h: the logits
// of rows of weights, which are read where they lie, and c += a b.

#ifndef TF_HSM_CC_CORE_AMX_TILE_H_
#define TF_HSM_CC_CORE_AMX_TILE_H_

#include <cstdint>

#include "cc/core/amx_pack.h"
#include "cc/core/tile.h"

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

// z[m][k] = x_m . w_k for up to 16 `row_tiles` rows of w and 16 `column_tiles`
// examples; x from PackParts<true>. With `prefetch`, asks for as many bytes as
// it reads, kPrefetchBytes ahead.
template <int row_tiles, int column_tiles, bool prefetch>
void LogitTiles(Matrix<const bfloat16> w, int64_t rows, const uint16_t* x,
                int parts, int64_t examples, int64_t width, Matrix<float> z) {
  alignas(64) uint16_t copies[2][kTileNumbers];
  const int64_t depths = CountTiles(width, kTileDepth);
  const int64_t next = depths * parts * kTileNumbers;
  _tile_zero(0);
  if constexpr (row_tiles > 1) _tile_zero(1);
  if constexpr (column_tiles > 1) _tile_zero(2);
  if constexpr (row_tiles > 1 && column_tiles > 1) _tile_zero(3);
  for (int64_t d = 0; d < width; d += kTileDepth) {
    if constexpr (prefetch) {
      constexpr int64_t lines = row_tiles * kTileLines;
      const char* ahead =
          reinterpret_cast<const char*>(w.data + d * lines) + kPrefetchBytes;
#pragma GCC unroll 32
      for (int i = 0; i < lines; ++i) __builtin_prefetch(ahead + i * 64);
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
      if constexpr (row_tiles > 1) _tile_dpbf16ps(1, 5, 6);
      if constexpr (column_tiles > 1) {
        _tile_loadd(7, x + next, kTileRowBytes);
        _tile_dpbf16ps(2, 4, 7);
        if constexpr (row_tiles > 1) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  alignas(64) float sums[2][2][kTileLines * 16];
  _tile_stored(0, sums[0][0], kTileRowBytes);
  if constexpr (row_tiles > 1) _tile_stored(1, sums[0][1], kTileRowBytes);
  if constexpr (column_tiles > 1) _tile_stored(2, sums[1][0], kTileRowBytes);
  if constexpr (row_tiles > 1 && column_tiles > 1) {
    _tile_stored(3, sums[1][1], kTileRowBytes);
  }
  for (int c = 0; c < column_tiles; ++c) {
    for (int r = 0; r < row_tiles; ++r) {
      Bits32 lines[kTileLines];
      __builtin_memcpy(lines, sums[c][r], sizeof(lines));
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

// The logits of `rows` rows of w; x from PackParts<true>.
inline void LogitsOnTiles(Matrix<const bfloat16> w, int64_t rows,
                          const uint16_t* x, int parts, int64_t examples,
                          int64_t width, Matrix<float> z) {
  const int64_t tile = CountTiles(width, kTileDepth) * parts * kTileNumbers;
  for (int64_t k = 0; k < rows; k += 2 * kTileLines) {
    const Matrix<const bfloat16> panel = {w.row(k), w.stride};
    for (int64_t m = 0; m < examples; m += 2 * kTileLines) {
      auto call = [&](auto row_tiles, auto column_tiles, auto prefetch) {
        LogitTiles<row_tiles.value, column_tiles.value, prefetch.value != 0>(
            panel, rows - k, x + m / kTileLines * tile, parts, examples - m,
            width, {z.row(m) + k, z.stride});
      };
      auto columns = [&](auto row_tiles, auto prefetch) {
        m + kTileLines < examples ? call(row_tiles, IntConstant<2>(), prefetch)
                                  : call(row_tiles, IntConstant<1>(), prefetch);
      };
      auto lines = [&](auto prefetch) {
        k + kTileLines < rows ? columns(IntConstant<2>(), prefetch)
                              : columns(IntConstant<1>(), prefetch);
      };
      m == 0 ? lines(IntConstant<1>()) : lines(IntConstant<0>());
    }
  }
}

// c[i][d] += sum_j a(i, j) b(j, d) for 16 `row_tiles` rows and 16
// `column_tiles` columns. a is in kParts and b in `parts`; of two parts'
// product nothing is left in fp32 where their ranks add up to kParts or more.
template <int row_tiles, int column_tiles>
void ProductTiles(const uint16_t* a, const uint16_t* b, int parts,
                  int64_t depths, bool add, Matrix<float> c) {
  const int64_t stride = c.stride * 4;
  const int64_t next_a = depths * kParts * kTileNumbers;
  const int64_t next_b = depths * parts * kTileNumbers;
  float* right = c.data + 16;
  float* below = c.row(kTileLines);
  if (add) {
    _tile_loadd(0, c.data, stride);
    if constexpr (column_tiles > 1) _tile_loadd(1, right, stride);
    if constexpr (row_tiles > 1) _tile_loadd(2, below, stride);
    if constexpr (row_tiles > 1 && column_tiles > 1) {
      _tile_loadd(3, below + 16, stride);
    }
  } else {
    _tile_zero(0);
    if constexpr (column_tiles > 1) _tile_zero(1);
    if constexpr (row_tiles > 1) _tile_zero(2);
    if constexpr (row_tiles > 1 && column_tiles > 1) _tile_zero(3);
  }
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
  _tile_stored(0, c.data, stride);
  if constexpr (column_tiles > 1) _tile_stored(1, right, stride);
  if constexpr (row_tiles > 1) _tile_stored(2, below, stride);
  if constexpr (row_tiles > 1 && column_tiles > 1) {
    _tile_stored(3, below + 16, stride);
  }
}

// c[i][d] (+)= sum_j a(i, j) b(j, d), a from PackParts<false> or PackFactors, b
// from PackRows (one part) or PackInputs. c has room for multiples of 16 rows
// and columns.
inline void ProductOnTiles(const uint16_t* a, const uint16_t* b, int parts,
                           int64_t height, int64_t depth, int64_t width,
                           bool add, Matrix<float> c) {
  const int64_t depths = CountTiles(depth, kTileDepth);
  BeforeTileLoads(c.data);
  for (int64_t d = 0; d < width; d += 32) {
    const uint16_t* right = b + d / 16 * depths * parts * kTileNumbers;
    for (int64_t i = 0; i < height; i += 2 * kTileLines) {
      const uint16_t* left =
          a + i / kTileLines * depths * kParts * kTileNumbers;
      auto call = [&](auto row_tiles, auto column_tiles) {
        ProductTiles<row_tiles.value, column_tiles.value>(
            left, right, parts, depths, add, {c.row(i) + d, c.stride});
      };
      auto columns = [&](auto row_tiles) {
        d + 16 < width ? call(row_tiles, IntConstant<2>())
                       : call(row_tiles, IntConstant<1>());
      };
      i + kTileLines < height ? columns(IntConstant<2>())
                              : columns(IntConstant<1>());
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_AMX_TILE_H_
