// The three products of groups of two rows (binary_groups-inl.h), for a chain
// of groups and the examples that pass all of them:
//
//   Deltas: delta(m, i) = x_m . d_i                    d_i = w_i0 - w_i1
//   AddChainDx: dx_m += sum_i dz(m, i) d_i
//   ChainGradient: g_i = sum_m dz(m, i) x_m, applied to the rows, written, or
//                  added to what is there
//
// In a pinned tree (tree_view.h) d_i is w_i0, the only row that there is.

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_PRODUCTS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_PRODUCTS_INL_H_

#include <cstdint>

#include "cc/core/groups/small/row_prefetcher-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Groups of a chain that are taken at once.
constexpr int kMaxChain = kManyRegisters ? 4 : 2;

// Vectors of width whose d, or dW, of a chain stays in registers.
constexpr int kChainVectors = 4;

// The first row of each group; the second one follows it, unless it is pinned.
template <typename T>
using ChainRows = const T* const*;

// Calls tile(vectors, partial, first column, lanes of the last vector) for all
// columns, the first two as types.
template <typename A, typename Tile>
TF_HSM_INLINE void ForColumns(int64_t width, Tile tile) {
  constexpr int lanes = kLanes<A>;
  int64_t d = 0;
  for (; d + kChainVectors * lanes <= width; d += kChainVectors * lanes) {
    tile(IntConstant<kChainVectors>(), IntConstant<0>(), d, int64_t{lanes});
  }
  const int64_t left = width - d;
  const int64_t tail = left % lanes;
  auto last = [&](auto vectors) __attribute__((always_inline)) {
    if ((left + lanes - 1) / lanes != decltype(vectors)::value) return;
    tail == 0 ? tile(vectors, IntConstant<0>(), d, int64_t{lanes})
              : tile(vectors, IntConstant<1>(), d, tail);
  };
  last(IntConstant<1>());
  last(IntConstant<2>());
  last(IntConstant<3>());
  last(IntConstant<4>());
}

// d of some columns.
template <bool pinned, typename T>
TF_HSM_INLINE auto Difference(const T* row, int64_t width) {
  if constexpr (pinned) return Load(row);
  return Load(row) - Load(row + width);
}
template <bool pinned, typename T>
TF_HSM_INLINE auto Difference(const T* row, int64_t width, int64_t count) {
  if constexpr (pinned) return LoadPartial(row, count);
  return LoadPartial(row, count) - LoadPartial(row + width, count);
}

// deltas [examples, nodes], without biases. With `prefetch`, it prefetches
// as many rows as it reads, those `ahead`.
template <typename T, bool pinned, int nodes, int examples, bool prefetch>
TF_HSM_INLINE void DeltaTile(ChainRows<T> rows, Matrix<const Accumulator<T>> x,
                             int64_t width, ChainRows<T> ahead,
                             Accumulator<T>* deltas) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  constexpr int count = nodes * examples;
  Vector<A> sums[count] = {};
  auto step = [&](int64_t d, auto load) __attribute__((always_inline)) {
    Vector<A> ds[nodes];
#pragma GCC unroll 8
    for (int i = 0; i < nodes; ++i) {
      if constexpr (prefetch) PrefetchPair<pinned>(ahead[i] + d, width);
      ds[i] = load(rows[i] + d);
    }
#pragma GCC unroll 8
    for (int m = 0; m < examples; ++m) {
      const Vector<A> xs = Load(x.row(m) + d);
#pragma GCC unroll 8
      for (int i = 0; i < nodes; ++i) sums[m * nodes + i] += xs * ds[i];
    }
  };
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    step(d, [width](const T* p) __attribute__((always_inline)) {
      return Difference<pinned>(p, width);
    });
  }
  if (d < width) {
    step(d, [width, d](const T* p) __attribute__((always_inline)) {
      return Difference<pinned>(p, width, width - d);
    });
  }
#pragma GCC unroll 8
  for (int p = 0; p < count; p += 4) {
    auto sum = [&](int i) __attribute__((always_inline)) {
      return p + i < count ? sums[p + i] : Vector<A>{};
    };
    const auto dots = SumLanes<A>(sum(0), sum(1), sum(2), sum(3));
    constexpr int kept = count < 4 ? count : 4;
    static_assert(count % kept == 0, "sums are made four at a time");
    __builtin_memcpy(deltas + p, &dots, kept * sizeof(A));
  }
}

template <typename T, bool pinned, int nodes>
void Deltas(ChainRows<T> rows, Matrix<const Accumulator<T>> x, int64_t examples,
            int64_t width, RowPrefetcher<T>* prefetcher,
            Accumulator<T>* deltas) {
  int64_t m = 0;
  auto tile = [&](auto count) __attribute__((always_inline)) {
    constexpr int height = decltype(count)::value;
    const Matrix<const Accumulator<T>> xs = {x.row(m), x.stride};
    Accumulator<T>* to = deltas + m * nodes;
    const T* ahead[nodes];
    if (prefetcher->Next(nodes, ahead)) {
      DeltaTile<T, pinned, nodes, height, true>(rows, xs, width, ahead, to);
    } else {
      DeltaTile<T, pinned, nodes, height, false>(rows, xs, width, nullptr, to);
    }
    m += height;
  };
  while (m + 4 <= examples) tile(IntConstant<4>());
  if (m + 2 <= examples) tile(IntConstant<2>());
  if (m < examples) tile(IntConstant<1>());
}

// dx[m] += sum_i dz(m, i) d_i, dz [examples, nodes]. Rows of dx may be one and
// the same.
template <typename T, bool pinned, int nodes>
void AddChainDx(ChainRows<T> rows, const Accumulator<T>* dz, int64_t examples,
                int64_t width, Accumulator<T>* const* dx) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  auto tile = [&](auto vectors, auto partial, int64_t column, int64_t tail) {
    constexpr int count = decltype(vectors)::value;
    Vector<A> ds[nodes][count];
#pragma GCC unroll 8
    for (int i = 0; i < nodes; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        const T* row = rows[i] + column + v * lanes;
        ds[i][v] = decltype(partial)::value && v == count - 1
                       ? Difference<pinned>(row, width, tail)
                       : Difference<pinned>(row, width);
      }
    }
    for (int64_t m = 0; m < examples; ++m) {
      A* to = dx[m] + column;
      Vector<A> sums[count];
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        sums[v] = Load(to + v * lanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < nodes; ++i) {
        const Vector<A> factor = Splat<A>(dz[m * nodes + i]);
#pragma GCC unroll 8
        for (int v = 0; v < count; ++v) {
          sums[v] += factor * ds[i][v];
        }
      }
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        Store(to + v * lanes, sums[v]);
      }
    }
  };
  ForColumns<A>(width, tile);
}

// What becomes of g_i. kApply, where T is A: w_i0 -= rates(i, 0) g_i and, of
// groups that are not pinned, w_i1 += rates(i, 1) g_i.
enum class Gradient { kWrite, kAdd, kApply };

// The gradients [nodes] of kWrite and kAdd, the rows and rates of kApply.
template <typename T, bool pinned, int nodes, Gradient use>
void ChainGradient(T* const* rows, const Accumulator<T>* rates,
                   const Accumulator<T>* dz, Matrix<const Accumulator<T>> x,
                   int64_t examples, int64_t width,
                   Accumulator<T>* const* gradients) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  auto tile = [&](auto vectors, auto partial, int64_t column, int64_t tail) {
    constexpr int count = decltype(vectors)::value;
    Vector<A> sums[nodes][count] = {};
    for (int64_t m = 0; m < examples; ++m) {
      Vector<A> xs[count];
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        xs[v] = Load(x.row(m) + column + v * lanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < nodes; ++i) {
        const Vector<A> factor = Splat<A>(dz[m * nodes + i]);
#pragma GCC unroll 8
        for (int v = 0; v < count; ++v) sums[i][v] += factor * xs[v];
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < nodes; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < count; ++v) {
        const bool cut = decltype(partial)::value && v == count - 1;
        const int64_t at = column + v * lanes;
        auto put = [&](auto* to, auto row) __attribute__((always_inline)) {
          cut ? StorePartial(to, row, tail) : Store(to, row);
        };
        if constexpr (use == Gradient::kApply) {
          T* w_0 = rows[i] + at;
          auto get = [&](const T* from) __attribute__((always_inline)) {
            return cut ? LoadPartial(from, tail) : Load(from);
          };
          if constexpr (pinned) {
            put(w_0, get(w_0) - rates[i] * sums[i][v]);
          } else {
            T* w_1 = w_0 + width;
            const Vector<A> next_0 = get(w_0) - rates[2 * i] * sums[i][v];
            const Vector<A> next_1 = get(w_1) + rates[2 * i + 1] * sums[i][v];
            put(w_0, next_0);
            put(w_1, next_1);
          }
        } else if constexpr (use == Gradient::kAdd) {
          // Padded.
          A* to = gradients[i] + at;
          put(to, Load(to) + sums[i][v]);
        } else {
          put(gradients[i] + at, sums[i][v]);
        }
      }
    }
  };
  ForColumns<A>(width, tile);
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_PRODUCTS_INL_H_
