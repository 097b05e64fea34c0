// The log-softmax of whole groups, for users of a trained tree: all of a
// group's logits are made and kept, while the loss needs only one of them.
//
//   out[m][k] = z_k - lse(z over k's group),   z_k = scale (w_k . x_m + b_k)
//
// or, of a label tree, -log(1 + exp(-z_k)).
//
// Several consecutive groups are scored as one block of rows, since their rows
// are contiguous. A value does not depend on which other examples and groups
// are in the call: neither do the results that searches and draws make of it.
// Cost: the weights are read once, 2 M K width FLOP, and three passes over the
// M K logits while they are in the cache.

#ifndef TF_HSM_CC_CORE_GROUPS_LOG_SOFTMAX_INL_H_
#define TF_HSM_CC_CORE_GROUPS_LOG_SOFTMAX_INL_H_

#include <cstdint>

#include "cc/core/groups/group_rows.h"
#include "cc/core/groups/logits-inl.h"
#include "cc/core/groups/sigmoid-inl.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// z[k] = scale z[k] - lse(scale z), through the scratch e [count]. Never above
// zero: the sum has exp(0) = 1 among its terms. A large scale overflows to
// minus infinity only, since the largest logit is subtracted first.
template <typename A>
void SubtractLogSum(int64_t count, A scale, A* z, A* e) {
  const A shift = Shift(Max(z, count));
  for (int64_t k = 0; k < count; ++k) z[k] = (z[k] - shift) * scale;
  const A log_total = Log1(ExpAndSum(z, count, A(0), e));
  for (int64_t k = 0; k < count; ++k) z[k] -= log_total;
}

template <typename T>
void LogSoftmax(const GroupRows<T>& in, Accumulator<T>* out, int64_t stride) {
  using A = Accumulator<T>;
  const int64_t* offsets = in.group_offsets;
  const int64_t rows = offsets[in.num_groups] - offsets[0];
  GroupLogits(in, rows, out, stride);
  if (in.has_sigmoids) {
    for (int64_t m = 0; m < in.num_examples; ++m) {
      LogSigmoid(rows, in.scale, out + m * stride);
    }
    return;
  }
  A* e = Scratch<A>(rows);
  for (int64_t m = 0; m < in.num_examples; ++m) {
    for (int64_t g = 0; g < in.num_groups; ++g) {
      SubtractLogSum(offsets[g + 1] - offsets[g], in.scale,
                     out + m * stride + offsets[g] - offsets[0], e);
    }
  }
}

// out[i] = exp(in[i]) for in[i] <= 0, like Exp.
template <typename A>
void Exps(const A* in, int64_t count, A* out) {
  ExpAndSum(in, count, A(0), out);
}

// sums[m] += sum_k factors[m][k] w_k; sums [examples, Padded(width)].
template <typename T>
void AddExpectations(const T* w, int64_t rows, int64_t width,
                     const Accumulator<T>* factors, int64_t stride,
                     int64_t examples, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  Outer<T, true>(Strided<A>{factors, stride, 1}, examples, rows,
                 Matrix<const T>{w, width}, width, {sums, Padded(width)});
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_LOG_SOFTMAX_INL_H_
