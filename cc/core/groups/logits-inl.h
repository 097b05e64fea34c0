// The logits of whole groups, for kernels that keep all of them.

#ifndef TF_HSM_CC_CORE_GROUPS_LOGITS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_LOGITS_INL_H_

#include <cstdint>

#include "cc/core/groups/group_rows.h"
#include "cc/core/simd/decode-inl.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// The logits of the first rows of groups of two, which begin each row of z, go
// apart, and zeros between them.
template <typename A>
void SpreadPinned(int64_t examples, int64_t groups, A* z, int64_t stride) {
  for (int64_t m = 0; m < examples; ++m, z += stride) {
    for (int64_t g = groups; g-- > 0;) {
      z[2 * g] = z[g];
      z[2 * g + 1] = 0;
    }
  }
}

struct Decoded {  // Scratch has one buffer for each type.
  float weight;
};

// out[m][k] = w_k . x_m + b_k for quantized rows, decoded some at a time: the
// bits equal the bits for the same rows as floats.
inline void QuantizedLogits(const GroupRows<float>& in, int64_t rows,
                            float* out, int64_t stride) {
  const int64_t padded = Padded(in.width);
  int64_t block = (16 << 10) / (padded * 4 + 1) / kTileRows * kTileRows;
  block = block < kTileRows ? kTileRows : block > 64 ? 64 : block;
  float* decoded = &Scratch<Decoded>((block + 1) * padded + kPadding)->weight;
  const Matrix<const float> w = {decoded, padded};
  const Matrix<const float> x = {in.x, padded};
  for (int64_t k = 0; k < rows; k += block) {
    const int64_t count = rows - k < block ? rows - k : block;
    const float* biases = in.biases == nullptr ? nullptr : in.biases + k;
    DecodeRows(in.quantized.From(k), count, decoded, padded);
    if (in.width <= kTransposedWidth) {
      TransposedLogits<float>(w, count, biases, x, in.num_examples, in.width,
                              {out + k, stride});
    } else {
      Logits<float, false>(w, count, biases, x, in.num_examples, in.width,
                           {out + k, stride});
    }
  }
}

// out[m][k] = w_k . x_m + b_k, or that with a soft cap, for all `rows` of the
// groups.
template <typename T>
void GroupLogits(const GroupRows<T>& in, int64_t rows, Accumulator<T>* out,
                 int64_t stride) {
  using A = Accumulator<T>;
  const Matrix<const T> w = {in.weights, in.width};
  const Matrix<const A> x = {in.x, Padded(in.width)};
  const int64_t made = in.pinned ? rows / 2 : rows;
  bool is_made = false;
  if constexpr (sizeof(T) == sizeof(float)) {
    is_made = in.quantized.codes != nullptr;
    if (is_made) QuantizedLogits(in, made, out, stride);
  }
  if (is_made) {
  } else if (in.width <= kTransposedWidth) {
    TransposedLogits<T>(w, made, in.biases, x, in.num_examples, in.width,
                        {out, stride});
  } else {
    Logits<T>(w, made, in.biases, x, in.num_examples, in.width, {out, stride});
  }
  for (int64_t m = 0; m < in.num_examples && in.logit_soft_cap > 0; ++m) {
    SoftCap(made, in.logit_soft_cap, out + m * stride);
  }
  if (in.pinned) SpreadPinned(in.num_examples, made, out, stride);
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_LOGITS_INL_H_
