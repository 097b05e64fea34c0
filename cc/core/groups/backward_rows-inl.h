// The backward of some rows of one group.
//
// dz = g (P - Y), Y smoothed or not, with the saved P, or with P made again
// from the weights and the saved normalizers; then dW = dz^T x. dW is written
// once and never read; or it never leaves the cache, and updates the weights
// there. Slices are of rows that have weights, so of a pinned tree the first
// row of each group.

#ifndef TF_HSM_CC_CORE_GROUPS_BACKWARD_ROWS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_BACKWARD_ROWS_INL_H_

#include <cstdint>

#include "cc/core/groups/backward_products-inl.h"
#include "cc/core/groups/partial_gradients-inl.h"
#include "cc/core/groups/problem.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"
#include "cc/core/update/update_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// to[i] = from[i], rounded to T. Memory that is too much for the cache is
// written past it, where T allows: half the traffic.
template <typename T>
void Write(const Accumulator<T>* from, int64_t count, bool past_cache, T* to) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  int64_t i = 0;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (past_cache) {
      const int64_t misaligned =
          reinterpret_cast<uintptr_t>(to) % kVectorBytes / sizeof(T);
      for (; i < count && (misaligned + i) % lanes != 0; ++i) to[i] = from[i];
      for (; i + lanes <= count; i += lanes) Stream(to + i, Load(from + i));
    }
  }
  for (; i + lanes <= count; i += lanes) Store(to + i, Load(from + i));
  if (i < count) {
    StorePartial(to + i, LoadPartial(from + i, count - i), count - i);
  }
}

// The local row of each of the group's examples; small groups have none stored.
inline const int64_t* Targets(const Plan& plan, int64_t index) {
  const Node& node = plan.nodes[index];
  if (node.fanout > kMaxSmallFanout) {
    return plan.targets.data() + node.target_offset;
  }
  int64_t* targets = Scratch<int64_t>(node.population());
  FillTargets(plan, node, node.begin, node.end, targets);
  return targets;
}

// Kept probabilities are prefetched this many examples before they are needed.
constexpr int64_t kAhead = 8;

template <typename A>
TF_HSM_INLINE void PrefetchPiece(const A* p, int64_t count) {
  const char* bytes = reinterpret_cast<const char*>(p);
  const int64_t size = count * static_cast<int64_t>(sizeof(A));
  for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i);
}

// Numbers of scratch beside that of the products.
template <typename Products>
int64_t BackwardScratch(int64_t width) {
  return Products::kMaxBlockRows *
         (kBackwardExamples + Products::Stride(width));
}

// Adds values to sums that may hold nothing yet.
template <typename A>
void AddToSums(const A* values, int64_t count, bool is_first, A* sums) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = is_first ? values[i] : sums[i] + values[i];
  }
}

template <typename T, typename Products>
void BackwardSliceBy(const Problem<T>& problem, const Slice& slice,
                     const BackwardArguments<T>& args) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = Products::kMaxBlockRows;
  constexpr int64_t kChunk = kBackwardExamples;
  static_assert(kBlock <= kMaxScaledRows, "room for the rates of a block");
  const Plan& plan = *problem.plan;
  const Node& node = plan.nodes[slice.node];
  const int64_t width = problem.width, padded = Padded(width);
  const int64_t population = node.population();
  const int64_t block = Products::BlockRows(population, width);
  Products products(width);
  const int64_t* targets = Targets(plan, slice.node);
  const A* grads = args.loss_grads + node.begin;
  const GradientSums<A>* sums = args.sums;
  // The examples that are added, counted from the group's first.
  const int64_t m_begin = sums == nullptr ? 0 : sums->begin - node.begin;
  const int64_t m_end = sums == nullptr ? population : sums->end - node.begin;
  const A smoothing = problem.Smoothing(node);
  const float* prior = problem.Prior(node);
  const A share = prior == nullptr ? smoothing / node.fanout : 0;
  const A cap = problem.logit_soft_cap;
  A slopes[kBlock];  // of the soft cap
  A* scratch = Scratch<A>(BackwardScratch<Products>(width));
  // [examples, rows]; of a small group as its probabilities lie.
  const Matrix<A> dz = {scratch, node.fanout < block ? node.fanout : block};
  // Or, where the products stream, the spread x.
  const Matrix<A> dw = {scratch + kBlock * kChunk, Products::Stride(width)};
  // In one chunk: terms that are added one by one could each be too small to
  // change a weight.
  const bool scaled = args.update != nullptr && sums == nullptr &&
                      population <= kChunk &&
                      IsScaledGradient(*args.update, population);

  // From the last rows back: of weights that the forward has just read, those
  // are still in the cache.
  for (int64_t k1 = slice.end; k1 > slice.begin; k1 -= block) {
    const int64_t k0 = k1 - slice.begin > block ? k1 - block : slice.begin;
    const int64_t rows = k1 - k0;
    const int64_t first = plan.FirstWeightRow(node) + k0;
    A db[kBlock] = {};
    for (int64_t m0 = m_begin; m0 < m_end; m0 += kChunk) {
      const int64_t examples = m_end - m0 < kChunk ? m_end - m0 : kChunk;
      const Matrix<const A> x = {problem.x + (node.begin + m0) * padded,
                                 padded};
      if (args.probs == nullptr) {
        const Matrix<const T> w = {problem.weights + first * width, width};
        const T* biases = problem.biases ? problem.biases + first : nullptr;
        // The forward chooses in the same way.
        if (width <= kTransposedWidth && node.fanout > kMaxSmallFanout) {
          TransposedLogits<T>(w, rows, biases, x, examples, width, dz);
        } else {
          Logits<T>(w, rows, biases, x, examples, width, dz);
        }
      }
      const bool as_kept = args.probs != nullptr && rows == node.fanout;
      if (as_kept) {
        __builtin_memcpy(dz.data, args.probs + node.prob_offset + m0 * rows,
                         examples * rows * sizeof(A));
      }
      for (int64_t m = 0; m < examples; ++m) {
        A* row = dz.row(m);
        const A g = grads[m0 + m];
        if (args.probs == nullptr) {
          const A* normalizer =
              args.normalizers + 2 * (node.pass_offset + m0 + m);
          if (cap > 0) {
            SoftCap(rows, cap, row);
            SoftCapSlopes(row, rows, cap, slopes);
          }
          // The forward's logits may be another product's: no probability
          // comes out above 1 for that.
          for (int64_t k = 0; k < rows; ++k) {
            row[k] = row[k] > normalizer[0] ? normalizer[0] : row[k];
          }
          ExpAndSum(row, rows, normalizer[0], row);
          for (int64_t k = 0; k < rows; ++k) row[k] *= normalizer[1];
        } else if (!as_kept) {
          const A* kept =
              args.probs + node.prob_offset + (m0 + m) * node.fanout + k0;
          // Each piece may lie on a page of its own.
          if (m + kAhead < examples) {
            PrefetchPiece(kept + kAhead * node.fanout, rows);
          }
          __builtin_memcpy(row, kept, rows * sizeof(A));
        }
        const int64_t t = targets[m0 + m] - k0;
        if (t >= 0 && t < rows) row[t] -= 1 - smoothing;
        if (cap > 0 && args.probs == nullptr) Multiply(slopes, rows, row);
        for (int64_t k = 0; k < rows && prior != nullptr; ++k) {
          row[k] -= smoothing * prior[k0 + k];
        }
        for (int64_t k = 0; k < rows; ++k) {
          row[k] = (row[k] - share) * g;
          db[k] += row[k];
        }
      }
      if constexpr (Products::kStreams) {
        products.Write(dz, rows, x, examples, dw,
                       args.dw + (node.row_offset + k0) * width);
      } else if (scaled) {
        if constexpr (sizeof(T) == sizeof(A)) {
          const Strided<A> factors = {dz.data, 1, dz.stride};
          ScaleByRates(*args.update, first, rows, examples, x.data, width,
                       dz.data, 1, dz.stride);
          Outer<A, true>(factors, rows, examples, x, width,
                         {args.update->weights + first * width, width});
        }
      } else {
        products.Add(dz, rows, x, examples, m0 > m_begin, dw);
      }
    }
    const bool in_block = !scaled && !Products::kStreams;
    if (in_block) {
      // From here on its rows follow each other closely.
      for (int64_t k = 1; k < rows && dw.stride != width; ++k) {
        __builtin_memmove(dw.data + k * width, dw.row(k), width * sizeof(A));
      }
    }
    A* block_dw = dw.data;
    if (sums != nullptr) {
      block_dw = sums->dw + k0 * width;
      AddToSums(dw.data, rows * width, m_begin == 0, block_dw);
      AddToSums(db, rows, m_begin == 0, sums->db + k0);
      __builtin_memcpy(db, sums->db + k0, rows * sizeof(A));
      if (args.update == nullptr) continue;
    }
    if (args.update != nullptr) {
      if (in_block) UpdateWeights(*args.update, first, rows, width, block_dw);
      UpdateBiases(*args.update, first, rows, db);
      continue;
    }
    const int64_t row = node.row_offset + k0;
    if (in_block) {
      Write(dw.data, rows * width, args.past_cache, args.dw + row * width);
    }
    Write(db, rows, false, args.db + row);
  }
}

template <typename T>
void BackwardSlice(const Problem<T>& problem, const Slice& slice,
                   const BackwardArguments<T>& args) {
  const Node& node = problem.plan->nodes[slice.node];
  if (node.has_partials()) {
    UpdateByPartials(*problem.plan, node, problem.width, args);
    return;
  }
  const int64_t population = node.population();
  const int64_t rows = slice.end - slice.begin;
#if defined(__AMX_BF16__)
  if (TileOuter::Suits(rows, population, problem.width)) {
    BackwardSliceBy<T, TileOuter>(problem, slice, args);
    return;
  }
#endif
  if constexpr (sizeof(T) == sizeof(float)) {
    if (args.past_cache && args.update == nullptr &&
        StreamingOuter::Suits(rows, population, problem.width)) {
      BackwardSliceBy<T, StreamingOuter>(problem, slice, args);
      return;
    }
  }
  BackwardSliceBy<T, VectorOuter<T>>(problem, slice, args);
}

template <typename T>
void BackwardRows(const Problem<T>& problem, const Slice* slices, int64_t count,
                  const BackwardArguments<T>& args) {
  for (int64_t i = 0; i < count; ++i) BackwardSlice(problem, slices[i], args);
  StreamFence();
}

// Reserves the scratch of an update, of groups that at most `examples` pass.
template <typename T>
void ReserveBackward(int64_t examples, int64_t width) {
  using A = Accumulator<T>;
  Scratch<int64_t>(examples);  // Targets
  Scratch<A>(BackwardScratch<VectorOuter<T>>(width));
#if defined(__AMX_BF16__)
  if (!TileOuter::Suits(kBackwardRowStep, examples, width)) return;
  Scratch<A>(BackwardScratch<TileOuter>(width));
  Scratch<uint16_t>(TileOuter::ScratchSize(width));
#endif
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_BACKWARD_ROWS_INL_H_
