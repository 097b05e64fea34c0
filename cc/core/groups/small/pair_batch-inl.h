// Pairs of a small group and an example: their logits and their softmaxes, many
// pairs side by side in the lanes of vectors.

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_PAIR_BATCH_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_PAIR_BATCH_INL_H_

#include <cstdint>

#include "cc/core/groups/problem.h"
#include "cc/core/groups/small/row_prefetcher-inl.h"
#include "cc/core/plan/plan.h"
#include "cc/core/simd/exp_log-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Nodes of a block, and the pairs of each with the examples that pass it.
template <typename T>
struct PairBatch {
  using A = Accumulator<T>;
  static constexpr int kPairs = 512;

  struct Part {
    const Node* node;
    int64_t first_example;  // in sorted order
    int num_examples;
    int first_pair;
  };

  int num_parts = 0;
  int num_pairs = 0;
  int most_rows = 0;  // largest fanout
  Part parts[kPairs];
  // By row of its group, then by pair: logits, then probabilities, then dz.
  // Rows that a group does not have are at minus infinity.
  A z[kMaxSmallFanout][kPairs];
  A max[kPairs], scale[kPairs], loss[kPairs];
  int64_t targets[kPairs];

  bool HasRoom(int64_t examples) const {
    return num_pairs + examples <= kPairs;
  }

  void Clear() { num_parts = num_pairs = most_rows = 0; }

  // Turns logits into probabilities, and makes max, scale and loss.
  void Softmax(const Problem<T>& problem) {
    constexpr int lanes = kLanes<A>;
    static_assert(kPairs % lanes == 0, "pairs fill vectors");
    const A lowest = -static_cast<A>(__builtin_inf());
    for (int i = 0; i < num_parts; ++i) {
      const Part& part = parts[i];
      for (int k = static_cast<int>(part.node->fanout); k < most_rows; ++k) {
        for (int p = 0; p < part.num_examples; ++p) {
          z[k][part.first_pair + p] = lowest;
        }
      }
    }
    for (int k = 0; k < most_rows; ++k) {
      for (int p = num_pairs; p % lanes != 0; ++p) z[k][p] = 0;
    }
    for (int p = 0; p < num_pairs; ++p) loss[p] = z[targets[p]][p];
    for (int i = 0; i < num_parts && problem.label_smoothing > 0; ++i) {
      SmoothTargets(parts[i], problem);
    }
    for (int p = 0; p < num_pairs; p += lanes) {
      Vector<A> top = Load(z[0] + p);
      for (int k = 1; k < most_rows; ++k) {
        const Vector<A> v = Load(z[k] + p);
        top = v > top ? v : top;
      }
      top = top == lowest ? Vector<A>{} : top;
      Vector<A> total = {};
      for (int k = 0; k < most_rows; ++k) {
        const Vector<A> e = Exp<A>(Load(z[k] + p) - top);
        Store(z[k] + p, e);
        total += e;
      }
      const Vector<A> inverse = 1 / total;
      for (int k = 0; k < most_rows; ++k) {
        Store(z[k] + p, Load(z[k] + p) * inverse);
      }
      Store(max + p, top);
      Store(scale + p, inverse);
      // lse - target, in an order that keeps the digits of large logits.
      Store(loss + p, Log<A>(total) + (top - Load(loss + p)));
    }
  }

 private:
  // The targets' logits, in `loss`, give up a share to the mean of the logits.
  void SmoothTargets(const Part& part, const Problem<T>& problem) {
    const int fanout = static_cast<int>(part.node->fanout);
    if (fanout == 1) return;
    const A smoothing = problem.label_smoothing;
    const float* prior = problem.Prior(*part.node);
    const int end = part.first_pair + part.num_examples;
    for (int p = part.first_pair; p < end; ++p) {
      A sum = 0;
      for (int k = 0; k < fanout; ++k) {
        if (prior == nullptr) {
          sum += z[k][p];
        } else if (prior[k] > 0) {  // what has no share may be infinite
          sum += prior[k] * z[k][p];
        }
      }
      loss[p] = Smoothed(smoothing, loss[p], prior ? sum : sum / fanout);
    }
  }
};

// The logits of two rows for some examples; to_r[m] is that of row r. It
// prefetches as many rows as it reads, those `ahead`.
template <typename T, int examples>
TF_HSM_INLINE void LogitPair(const T* row_0, const T* row_1,
                             Matrix<const Accumulator<T>> x, int64_t width,
                             const T* ahead, Accumulator<T>* to_0,
                             Accumulator<T>* to_1) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  Vector<A> sums[examples][2] = {};
  auto step = [&](int64_t d, auto load) __attribute__((always_inline)) {
    PrefetchPair<false>(ahead + d, width);
    const Vector<A> w_0 = load(row_0 + d), w_1 = load(row_1 + d);
#pragma GCC unroll 8
    for (int m = 0; m < examples; ++m) {
      const Vector<A> xs = Load(x.row(m) + d);
      sums[m][0] += xs * w_0;
      sums[m][1] += xs * w_1;
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
  for (int m = 0; m < examples; m += 2) {
    constexpr int last = examples - 1;
    const int other = m < last ? m + 1 : m;
    const auto dots =
        SumLanes<A>(sums[m][0], sums[m][1], sums[other][0], sums[other][1]);
    to_0[m] = dots[0];
    to_1[m] = dots[1];
    to_0[other] = dots[2];
    to_1[other] = dots[3];
  }
}

// z[k][m] = x_m . w_k + b_k for the few rows of a group.
template <typename T>
void SmallLogits(Matrix<const T> w, int64_t rows, const T* biases,
                 Matrix<const Accumulator<T>> x, int64_t examples,
                 int64_t width, RowPrefetcher<T>* prefetcher,
                 Matrix<Accumulator<T>> z) {
  constexpr int kHeight = kManyRegisters ? 6 : 4;
  for (int64_t k = 0; k < rows; k += 2) {
    // An odd last row stands for both.
    const int64_t other = k + 1 < rows ? k + 1 : k;
    int64_t m = 0;
    auto tile = [&](auto count) {
      constexpr int height = decltype(count)::value;
      const T* ahead = w.row(k);  // if there is none, one that is here
      prefetcher->Next(1, &ahead);
      LogitPair<T, height>(w.row(k), w.row(other), {x.row(m), x.stride}, width,
                           ahead, z.row(k) + m, z.row(other) + m);
      m += height;
    };
    while (m + kHeight <= examples) tile(IntConstant<kHeight>());
    if (m + 4 <= examples) tile(IntConstant<4>());
    if (m + 2 <= examples) tile(IntConstant<2>());
    if (m < examples) tile(IntConstant<1>());
  }
  if (biases == nullptr) return;
  for (int64_t k = 0; k < rows; ++k) {
    const Accumulator<T> bias = LoadPartial(biases + k, 1)[0];
    for (int64_t m = 0; m < examples; ++m) z.row(k)[m] += bias;
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_PAIR_BATCH_INL_H_
