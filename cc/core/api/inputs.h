// Inputs as the kernels read them: accumulators, in rows padded with zeros.

#ifndef TF_HSM_CC_CORE_API_INPUTS_H_
#define TF_HSM_CC_CORE_API_INPUTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// x [batch, width] of any element type -> packed [count, Padded(width)], whose
// row i is that of example order[i], or of example i without an order.
template <typename X, typename A>
void PackInputs(const int64_t* order, int64_t count, const X* x, int64_t width,
                const Parallel& parallel, A* packed);

// What some examples' inputs are made of: sums of rows of a table. The i-th
// example has the pairs [starts[i], starts[i + 1]), each of a row and a factor.
template <typename A>
struct Bags {
  std::vector<int64_t> starts;  // [examples + 1]
  std::vector<int64_t> rows;    // [pairs]
  std::vector<A> factors;       // [pairs]

  int64_t num_examples() const {
    return static_cast<int64_t>(starts.size()) - 1;
  }
};

// The sums of `bags` over rows of x [..., width] -> packed
// [examples, Padded(width)].
template <typename X, typename A>
void PackSums(const Bags<A>& bags, const X* x, int64_t width,
              const Parallel& parallel, A* packed);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_INPUTS_H_
