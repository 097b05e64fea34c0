// One step of an update rule on some rows of a variable, in place.

#ifndef TF_HSM_CC_CORE_SPARSE_UPDATE_H_
#define TF_HSM_CC_CORE_SPARSE_UPDATE_H_

#include <cstdint>

#include "cc/core/parallel.h"
#include "cc/core/types.h"
#include "cc/core/update.h"

namespace tf_hsm {

// A gradient that names its rows. Indices may come in any order and repeat.
template <typename T>
struct SparseGradient {
  const int64_t* indices = nullptr;        // [count]
  const Accumulator<T>* values = nullptr;  // [count, width]
  int64_t count = 0;
  int64_t width = 0;
};

// Updates the weights of `update`, [rows, width], whose biases are not used, by
// the sums of each row's values. These are made in the order of `values`, so
// that the bits depend neither on the threads nor on the other rows.
// No index is checked. Costs one read of the values, one read and
// write of the touched rows and slots, and O(count) for a sort.
template <typename T>
void SparseUpdate(const Update<T>& update, const SparseGradient<T>& gradient,
                  const Parallel& parallel);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SPARSE_UPDATE_H_
