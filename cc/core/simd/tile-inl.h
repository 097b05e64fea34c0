// The two register-tiled matrix products of the package. Neither packs its
// operands: weights are streamed from memory as they lie. Only narrow weights
// are transposed for the logits, a few rows at a time.
//
//   Logits: z[m][k] = x_m . w_k + b_k     both operands contiguous in width
//   Outer: c[i][d] += sum_j a(i, j) b[j][d]
//
// Rows of weights are of type T and need no alignment or padding; rows of x are
// accumulators, padded with zeros to kPadding (types.h).

#ifndef TF_HSM_CC_CORE_SIMD_TILE_INL_H_
#define TF_HSM_CC_CORE_SIMD_TILE_INL_H_

#include <cstdint>

#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Tile heights that keep all sums in registers: 32 vector registers with
// AVX-512 and on Arm, 16 otherwise. Twelve sums hide the latency of the sums;
// eight do not.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kManyRegisters = true;
constexpr int kTileHeight = 6;
constexpr int kOuterHeight = 6;
#else
constexpr bool kManyRegisters = false;
constexpr int kTileHeight = 3;
constexpr int kOuterHeight = 4;
#endif
// Rows of weights in a tile of logits: SumLanes sums four vectors at a time.
// The sums of a tile, a vector of x for each example and one of weights take 31
// of 32 registers, or 16 of 16.
constexpr int kTileRows = 4;

// Vectors of width in a tile of Outer. A low tile is wide, so that whole lines
// of its few rows are in flight.
template <int height>
constexpr int kTileVectors = kManyRegisters ? (height <= 2 ? 8 : 4)
                             : height <= 2  ? 4
                                            : 3;

// A dense matrix or one of ours: a pointer and its leading dimension.
template <typename S>
struct Matrix {
  S* data;
  int64_t stride;
  S* row(int64_t i) const { return data + i * stride; }
};

// Rows that lie anywhere.
template <typename S>
struct Rows {
  S* const* pointers;
  S* row(int64_t i) const { return pointers[i]; }
};

// Weights are prefetched this many bytes before they are needed, into the
// second cache: hardware alone does not keep up with four rows at a time.
constexpr int64_t kPrefetchBytes = 16 << 10;

// out[m] is a vector of the products of x_m with kTileRows rows of w. With
// `prefetch`, it prefetches as many bytes as it reads, kPrefetchBytes ahead.
template <typename T, int examples, bool prefetch, typename Weights>
TF_HSM_INLINE void DotTile(Weights w, Matrix<const Accumulator<T>> x,
                           int64_t width,
                           VectorN<Accumulator<T>, kTileRows>* out) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  Vector<A> sums[examples][kTileRows] = {};
  auto step = [&](int64_t d, auto load) __attribute__((always_inline)) {
    if constexpr (prefetch) {
      constexpr int bytes = kTileRows * lanes * static_cast<int>(sizeof(T));
      const char* ahead =
          reinterpret_cast<const char*>(w.data + d * kTileRows) +
          kPrefetchBytes;
#pragma GCC unroll 8
      for (int i = 0; i < bytes; i += 64) __builtin_prefetch(ahead + i, 0, 2);
    }
    Vector<A> xs[examples];
#pragma GCC unroll 8
    for (int m = 0; m < examples; ++m) xs[m] = Load(x.row(m) + d);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const Vector<A> row = load(w.row(r) + d);
#pragma GCC unroll 8
      for (int m = 0; m < examples; ++m) sums[m][r] += xs[m] * row;
    }
  };
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    step(d, [](const T* p) __attribute__((always_inline)) { return Load(p); });
  }
  if (d < width) {
    const int64_t rest = width - d;
    step(d, [rest](const T* p) __attribute__((always_inline)) {
      return LoadPartial(p, rest);
    });
  }
#pragma GCC unroll 8
  for (int m = 0; m < examples; ++m) {
    out[m] = SumLanes<A>(sums[m][0], sums[m][1], sums[m][2], sums[m][3]);
  }
}

// The product of x with one row of w.
template <typename T>
TF_HSM_INLINE Accumulator<T> Dot(const T* w, const Accumulator<T>* x,
                                 int64_t width) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  Vector<A> sum = {};
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) sum += Load(x + d) * Load(w + d);
  if (d < width) sum += Load(x + d) * LoadPartial(w + d, width - d);
  return SumLanes<A>(sum);
}

template <typename T, int examples, bool prefetch>
void LogitColumn(Matrix<const T> w, Matrix<const Accumulator<T>> x,
                 int64_t width, Matrix<Accumulator<T>> z) {
  VectorN<Accumulator<T>, kTileRows> dots[examples];
  DotTile<T, examples, prefetch>(w, x, width, dots);
  for (int m = 0; m < examples; ++m) {
    __builtin_memcpy(z.row(m), &dots[m], sizeof(dots[m]));
  }
}

// z[m][k] += b_k, unless there are none.
template <typename T>
void AddBiases(const T* biases, int64_t rows, int64_t examples,
               Matrix<Accumulator<T>> z) {
  using A = Accumulator<T>;
  if (biases == nullptr) return;
  for (int64_t m = 0; m < examples; ++m) {
    A* row = z.row(m);
    int64_t i = 0;
    for (; i + kLanes<A> <= rows; i += kLanes<A>) {
      Store(row + i, Load(row + i) + Load(biases + i));
    }
    if (i < rows) {
      StorePartial(
          row + i,
          LoadPartial(row + i, rows - i) + LoadPartial(biases + i, rows - i),
          rows - i);
    }
  }
}

// z[m][k] = x_m . w_k for `examples` x `rows`; each four rows of w are read
// from memory once and meet all the examples while they are in the first cache.
// Without `prefetch` they are in a cache already.
template <typename T, bool prefetch = true>
void Logits(Matrix<const T> w, int64_t rows, const T* biases,
            Matrix<const Accumulator<T>> x, int64_t examples, int64_t width,
            Matrix<Accumulator<T>> z) {
  using A = Accumulator<T>;
  int64_t k = 0;
  for (; k + kTileRows <= rows; k += kTileRows) {
    const Matrix<const T> panel = {w.row(k), w.stride};
    int64_t m = 0;
    auto column = [&](auto count) {
      constexpr int height = decltype(count)::value;
      const Matrix<const A> xs = {x.row(m), x.stride};
      const Matrix<A> zs = {z.row(m) + k, z.stride};
      if (m == 0) {
        LogitColumn<T, height, prefetch>(panel, xs, width, zs);
      } else {
        LogitColumn<T, height, false>(panel, xs, width, zs);
      }
      m += height;
    };
    while (m + kTileHeight <= examples) column(IntConstant<kTileHeight>());
    if constexpr (kManyRegisters) {
      if (m + 4 <= examples) column(IntConstant<4>());
    }
    if (m + 2 <= examples) column(IntConstant<2>());
    if (m < examples) column(IntConstant<1>());
  }
  for (; k < rows; ++k) {
    for (int64_t m = 0; m < examples; ++m) {
      z.row(m)[k] = Dot<T>(w.row(k), x.row(m), width);
    }
  }
  AddBiases(biases, rows, examples, z);
}

// a(i, j) = data[i * row_stride + j * column_stride].
template <typename A>
struct Strided {
  const A* data;
  int64_t row_stride;
  int64_t column_stride;
};

// The columns [first, first + vectors) of a few rows of c, in registers.
template <typename T, int height, int vectors, bool partial, bool add,
          typename Source>
void OuterTile(Strided<Accumulator<T>> a, int64_t depth, Source b,
               int64_t first, int64_t tail, Matrix<Accumulator<T>> c) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  // The last vector of a partial tile has `tail` lanes.
  auto load = [tail](const auto* row, int v) __attribute__((always_inline)) {
    return partial && v == vectors - 1 ? LoadPartial(row + v * lanes, tail)
                                       : Load(row + v * lanes);
  };
  Vector<A> sums[height][vectors] = {};
  for (int64_t j = 0; j < depth; ++j) {
    Vector<A> values[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) values[v] = load(b.row(j) + first, v);
    const A* column = a.data + j * a.column_stride;
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i) {
      const Vector<A> factor = Splat<A>(column[i * a.row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[i][v] += factor * values[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < height; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      A* to = c.row(i) + first + v * lanes;
      // Last, so that small terms are summed before they meet a large number.
      if constexpr (add) sums[i][v] += load(c.row(i) + first, v);
      if (partial && v == vectors - 1) {
        StorePartial(to, sums[i][v], tail);
      } else {
        Store(to, sums[i][v]);
      }
    }
  }
}

template <typename T, int height, bool add, typename Source>
void OuterRows(Strided<Accumulator<T>> a, int64_t depth, Source b,
               int64_t width, Matrix<Accumulator<T>> c) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  int64_t d = 0;
  auto tile = [&](auto vectors, auto partial) {
    constexpr int count = decltype(vectors)::value;
    OuterTile<T, height, count, decltype(partial)::value == 1, add>(
        a, depth, b, d, width - d - (count - 1) * lanes, c);
    d += count * lanes;
  };
  constexpr int wide = kTileVectors<height>;
  while (d + wide * lanes <= width) tile(IntConstant<wide>(), IntConstant<0>());
  const int64_t left = width - d;
  const bool partial = left % lanes != 0;
  auto last = [&](auto vectors) {
    if ((left + lanes - 1) / lanes != decltype(vectors)::value) return;
    partial ? tile(vectors, IntConstant<1>()) : tile(vectors, IntConstant<0>());
  };
  if (left == 0) return;
  last(IntConstant<1>());
  last(IntConstant<2>());
  last(IntConstant<3>());
  if constexpr (wide > 3) last(IntConstant<4>());
  if constexpr (wide > 4) {
    last(IntConstant<5>());
    last(IntConstant<6>());
    last(IntConstant<7>());
    last(IntConstant<8>());
  }
}

// c[i][d] += (or, without `add`, =) the sum over j < depth of a(i, j) b[j][d],
// for i < height and d < width. b is a Matrix or Rows of T.
template <typename T, bool add, typename Source>
void Outer(Strided<Accumulator<T>> a, int64_t height, int64_t depth, Source b,
           int64_t width, Matrix<Accumulator<T>> c) {
  int64_t i = 0;
  auto rows = [&](auto count) {
    constexpr int tile = decltype(count)::value;
    OuterRows<T, tile, add>(
        {a.data + i * a.row_stride, a.row_stride, a.column_stride}, depth, b,
        width, {c.row(i), c.stride});
    i += tile;
  };
  while (i + kOuterHeight <= height) rows(IntConstant<kOuterHeight>());
  if constexpr (kOuterHeight > 4) {
    if (i + 4 <= height) rows(IntConstant<4>());
  }
  if (i + 2 <= height) rows(IntConstant<2>());
  if (i < height) rows(IntConstant<1>());
}

// Rows up to this wide have TransposedLogits: the sums over lanes of Logits
// cost more than their products.
constexpr int64_t kTransposedWidth = 16;

// Logits, by way of a transposed copy of a few rows of w at a time: lanes are
// rows, and no sum crosses them.
template <typename T>
void TransposedLogits(Matrix<const T> w, int64_t rows, const T* biases,
                      Matrix<const Accumulator<T>> x, int64_t examples,
                      int64_t width, Matrix<Accumulator<T>> z) {
  using A = Accumulator<T>;
  constexpr int64_t panel = 4 * kLanes<A>;
  A transposed[kTransposedWidth * panel];
  for (int64_t k0 = 0; k0 < rows; k0 += panel) {
    const int64_t count = rows - k0 < panel ? rows - k0 : panel;
    for (int64_t k = 0; k < count; ++k) {
      A row[kTransposedWidth];
      int64_t d = 0;
      for (; d + kLanes<A> <= width; d += kLanes<A>) {
        Store(row + d, Load(w.row(k0 + k) + d));
      }
      if (d < width) Store(row + d, LoadPartial(w.row(k0 + k) + d, width - d));
      for (d = 0; d < width; ++d) transposed[d * panel + k] = row[d];
    }
    Outer<A, false>(Strided<A>{x.data, x.stride, 1}, examples, width,
                    Matrix<const A>{transposed, panel}, count,
                    {z.data + k0, z.stride});
  }
  AddBiases(biases, rows, examples, z);
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_TILE_INL_H_
