// The forward of one group: loss and dx from one read of the weights.
//
// The K rows stream through the cache once, in blocks, and meet M examples. A
// block's logits are made, an online softmax keeps the running maximum m and
// s = sum exp(z - m) of each example, and the block's part of
// sum_k exp(z_k - m) w_k is added while its rows are still in the cache
// (rescaled when m grows). So the loss and
//     dx = softmax(z) W - w_label
// come from one read of W. That is allowed because exp(z - m) / s is the
// softmax whatever m is. Cost: K width sizeof(T) bytes from memory, 4 M K width
// FLOP with dx and 2 M K width without. With label smoothing, the label's row
// gives up a share to the mean of all rows, plain or weighted by a prior, which
// is made once for M examples.

#ifndef TF_HSM_CC_CORE_GROUPS_FORWARD_GROUP_INL_H_
#define TF_HSM_CC_CORE_GROUPS_FORWARD_GROUP_INL_H_

#include <cstdint>

#include "cc/core/groups/forward_products-inl.h"
#include "cc/core/groups/problem.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

template <typename A>
void Scale(A* y, int64_t count, A factor) {
  for (int64_t d = 0; d < count; ++d) y[d] *= factor;
}

// out[d] += factor (sum[d] * scale - w[d]).
template <typename T>
void AddExpectation(const Accumulator<T>* sum, Accumulator<T> scale, const T* w,
                    int64_t width, Accumulator<T> factor, Accumulator<T>* out) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    Store(out + d,
          Load(out + d) + (Load(sum + d) * scale - Load(w + d)) * factor);
  }
  if (d < width) {
    const int64_t rest = width - d;
    StorePartial(
        out + d,
        LoadPartial(out + d, rest) +
            (LoadPartial(sum + d, rest) * scale - LoadPartial(w + d, rest)) *
                factor,
        rest);
  }
}

// sum[d] += factor * sum over the rows of w[d].
template <typename T>
void AddRows(Matrix<const T> w, int64_t rows, int64_t width,
             Accumulator<T> factor, Accumulator<T>* sum) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  for (int64_t k = 0; k < rows; ++k) {
    int64_t d = 0;
    for (; d + lanes <= width; d += lanes) {
      Store(sum + d, Load(sum + d) + Load(w.row(k) + d) * factor);
    }
    if (d < width) {
      const int64_t rest = width - d;
      StorePartial(
          sum + d,
          LoadPartial(sum + d, rest) + LoadPartial(w.row(k) + d, rest) * factor,
          rest);
    }
  }
}

template <typename A>
A Mean(const A* z, int64_t count, int64_t of_all) {
  A sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += z[k];
  return sum / of_all;
}

// A part of the mean by a prior. What has no share may be infinite.
template <typename A>
A WeightedSum(const A* z, const float* prior, int64_t count) {
  A sum = 0;
  for (int64_t k = 0; k < count; ++k) {
    sum += prior[k] > 0 ? prior[k] * z[k] : 0;
  }
  return sum;
}

// Those rows of AddRows, each with its own factor.
template <typename T>
void AddWeightedRows(Matrix<const T> w, int64_t rows, int64_t width,
                     const float* prior, Accumulator<T>* sum) {
  for (int64_t k = 0; k < rows; ++k) {
    if (prior[k] > 0) {
      AddRows<T>({w.row(k), width}, 1, width, prior[k], sum);
    }
  }
}

// Numbers of scratch beside that of the products.
template <typename Products>
int64_t ForwardScratch(int64_t examples, int64_t width) {
  return Padded(width) +
         Padded(examples) * (Products::kMaxBlockRows + Products::Stride(width));
}

// Returns false, with no output added to, where the products are not made for
// the weights.
template <typename T, typename Products>
bool ForwardGroupBy(const Problem<T>& problem, const Slice& slice,
                    const ForwardOutputs<T>& out) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  const Node& node = plan.nodes[slice.node];
  const int64_t begin = slice.begin, end = slice.end;
  const int64_t width = problem.width, padded = Padded(width);
  const int64_t examples = end - begin;
  const int64_t tall = Padded(examples);
  const Matrix<const A> x = {problem.x + begin * padded, padded};
  const int64_t* targets =
      plan.targets.data() + node.target_offset + begin - node.begin;
  const int64_t* order = plan.order.data() + begin;
  const bool with_dx = out.dx != nullptr;
  const A smoothing = problem.label_smoothing;
  const float* prior = problem.Prior(node);
  const A cap = problem.logit_soft_cap;

  Products products(x, examples, width);
  const int64_t block = products.BlockRows();
  constexpr int64_t most = Products::kMaxBlockRows;
  A* scratch = Scratch<A>(ForwardScratch<Products>(examples, width));
  const Matrix<A> e = {scratch, most};
  const Matrix<A> sums = {scratch + tall * most, Products::Stride(width)};
  A* mean_row = scratch + tall * (most + sums.stride);
  const int64_t prob_row =
      node.prob_offset + (begin - node.begin) * node.fanout;
  A max[kForwardExamples], total[kForwardExamples], target[kForwardExamples];
  A mean[kForwardExamples];  // of the logits, for smoothing
  A target_slope[kForwardExamples], slopes[most];  // of the soft cap
  for (int64_t m = 0; m < examples; ++m) {
    max[m] = -static_cast<A>(__builtin_inf());
    total[m] = mean[m] = 0;
    target_slope[m] = 1;
  }
  for (int64_t d = 0; d < width && smoothing > 0; ++d) mean_row[d] = 0;

  for (int64_t k0 = 0; k0 < node.fanout; k0 += block) {
    const int64_t rows = node.fanout - k0 < block ? node.fanout - k0 : block;
    const int64_t first = node.first_row + k0;
    const Matrix<const T> w = {problem.weights + first * width, width};
    const Matrix<A> z = out.probs == nullptr
                            ? e
                            : Matrix<A>{out.probs + prob_row + k0, node.fanout};
    products.Logits(w, rows, problem.biases ? problem.biases + first : nullptr,
                    z);
    for (int64_t m = 0; m < examples; ++m) {
      const int64_t t = targets[m] - k0;
      const bool has_target = t >= 0 && t < rows;
      if (cap > 0) {
        SoftCap(rows, cap, z.row(m));
        SoftCapSlopes(z.row(m), rows, cap, slopes);
        if (has_target) target_slope[m] = slopes[t];
      }
      if (has_target) target[m] = z.row(m)[t];
      if (smoothing > 0) {
        mean[m] += prior == nullptr ? Mean(z.row(m), rows, node.fanout)
                                    : WeightedSum(z.row(m), prior + k0, rows);
      }
      const A block_max = Max(z.row(m), rows);
      if (block_max > max[m]) {
        const A shrink = k0 == 0 ? 0 : Exp<A>(Splat<A>(max[m] - block_max))[0];
        total[m] *= shrink;
        if (with_dx && k0 > 0) Scale(sums.row(m), width, shrink);
        max[m] = block_max;
      }
      total[m] += ExpAndSum(z.row(m), rows, Shift(max[m]), e.row(m));
      if (cap > 0) Multiply(slopes, rows, e.row(m));
    }
    if (with_dx) products.Expect(e, w, rows, k0 > 0, sums);
    if (with_dx && smoothing > 0) {
      prior == nullptr ? AddRows(w, rows, width, A(1) / node.fanout, mean_row)
                       : AddWeightedRows(w, rows, width, prior + k0, mean_row);
    }
  }
  if constexpr (!Products::kForInfiniteWeights) {
    for (int64_t m = 0; m < examples; ++m) {
      if (total[m] != total[m]) return false;
    }
  }

  for (int64_t m = 0; m < examples; ++m) {
    // lse - target, in an order that keeps the digits of large logits.
    const A shift = Shift(max[m]), log_total = Log1(total[m]);
    A scale = 1 / total[m], gap = shift - target[m];
    if (smoothing > 0) {
      gap = Smoothed(smoothing, gap, shift - mean[m]);
    }
    A loss = log_total + gap;
    if (problem.z_loss > 0) {
      // From here on, the probabilities are those in the gradient of the loss.
      const A lse = shift + log_total;
      loss += problem.z_loss * lse * lse;
      scale *= 1 + 2 * problem.z_loss * lse;
    }
    out.loss[order[m]] += loss;
    const int64_t pass = node.pass_offset + begin - node.begin + m;
    if (out.normalizers != nullptr) {
      out.normalizers[2 * pass] = shift;
      out.normalizers[2 * pass + 1] = scale;
    }
    if (out.probs != nullptr) {
      A* probs = out.probs + prob_row + m * node.fanout;
      for (int64_t k0 = 0; cap > 0 && k0 < node.fanout; k0 += most) {
        const int64_t rows = node.fanout - k0 < most ? node.fanout - k0 : most;
        SoftCapSlopes(probs + k0, rows, cap, slopes);
        ExpAndSum(probs + k0, rows, shift, probs + k0);
        Multiply(slopes, rows, probs + k0);
      }
      if (cap == 0) ExpAndSum(probs, node.fanout, shift, probs);
      Scale(probs, node.fanout, scale);
      // What the backward subtracts from the target is 1.
      if (cap > 0) probs[targets[m]] += 1 - target_slope[m];
    }
    if (with_dx) {
      const T* w = problem.weights + (node.first_row + targets[m]) * width;
      const A factor = out.dx_factors ? out.dx_factors[begin + m] : 1;
      A* dx = out.DxRow(problem, begin + m);
      AddExpectation<T>(sums.row(m), scale, w, width, factor, dx);
      if (smoothing > 0) {
        AddExpectation<T>(mean_row, 1, w, width, -smoothing * factor, dx);
      }
      if (cap > 0) {
        AddRows<T>({w, width}, 1, width, factor * (1 - target_slope[m]), dx);
      }
    }
  }
  return true;
}

template <typename T>
void ForwardGroup(const Problem<T>& problem, const Slice& slice,
                  const ForwardOutputs<T>& out) {
#if defined(__AMX_BF16__)
  // NaN may be the tiles' own: then vectors find out.
  const int64_t fanout = problem.plan->nodes[slice.node].fanout;
  if (TileProducts<T>::Suits(fanout, slice.end - slice.begin, problem.width) &&
      ForwardGroupBy<T, TileProducts<T>>(problem, slice, out)) {
    return;
  }
#endif
  ForwardGroupBy<T, VectorProducts<T>>(problem, slice, out);
}

// Reserves the scratch for slices of at most `examples`.
template <typename T>
void ReserveForward(int64_t examples, int64_t width) {
  using A = Accumulator<T>;
  Scratch<A>(ForwardScratch<VectorProducts<T>>(examples, width));
  VectorProducts<T>::Reserve(examples, width);
#if defined(__AMX_BF16__)
  using Products = TileProducts<T>;
  if (!Products::Suits(Products::kMaxBlockRows, examples, width)) return;
  Scratch<A>(ForwardScratch<Products>(examples, width));
  Scratch<uint16_t>(Products::ScratchSize(examples, width));
#endif
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_FORWARD_GROUP_INL_H_
