// Loss, dx, dW and db of a batch: which kernel runs on what, in which order.

#ifndef TF_HSM_CC_CORE_LOSS_H_
#define TF_HSM_CC_CORE_LOSS_H_

#include <cstdint>

#include "cc/core/kernels.h"
#include "cc/core/parallel.h"
#include "cc/core/plan.h"
#include "cc/core/types.h"

namespace tf_hsm {

// Probabilities are kept for the backward up to this many bytes; above, the
// backward makes them again from the weights and the saved normalizers.
constexpr int64_t kMaxKeptBytes = int64_t{256} << 20;

template <typename T>
bool KeepsProbs(const Plan& plan) {
  return plan.num_probs <=
         kMaxKeptBytes / static_cast<int64_t>(sizeof(Accumulator<T>));
}

// x [batch, width] in any element type -> sorted [examples, Padded(width)].
template <typename X, typename A>
void SortInputs(const Plan& plan, const X* x, int64_t width,
                const Parallel& parallel, A* sorted);

// Adds loss and dx to outputs that hold zeros; fills normalizers and probs.
template <typename T>
void Forward(const Problem<T>& problem, const Kernels<T>& kernels,
             const Parallel& parallel, const ForwardOutputs<T>& outputs);

// Fills dw and db of all touched rows.
template <typename T>
void Backward(const Problem<T>& problem, const Kernels<T>& kernels,
              const Parallel& parallel, const BackwardArguments<T>& arguments);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_LOSS_H_
