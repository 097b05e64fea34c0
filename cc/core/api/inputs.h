// Inputs as the kernels read them: accumulators, in rows padded with zeros.

#ifndef TF_HSM_CC_CORE_API_INPUTS_H_
#define TF_HSM_CC_CORE_API_INPUTS_H_

#include <cstdint>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// x [batch, width] of any element type -> packed [count, Padded(width)], whose
// row i is that of example order[i], or of example i without an order.
template <typename X, typename A>
void PackInputs(const int64_t* order, int64_t count, const X* x, int64_t width,
                const Parallel& parallel, A* packed);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_INPUTS_H_
