// One step of an update rule on some rows of a variable, in place.

#ifndef TF_HSM_CC_CORE_SPARSE_UPDATE_H_
#define TF_HSM_CC_CORE_SPARSE_UPDATE_H_

#include <cstdint>
#include <vector>

#include "cc/core/parallel.h"
#include "cc/core/radix_sort.h"
#include "cc/core/types.h"
#include "cc/core/update.h"

namespace tf_hsm {

// A gradient that names its rows: the keys of `rows`, which are sorted, each
// with the index of its values. Rows may repeat.
template <typename T>
struct SparseGradient {
  const KeyAndIndex* rows = nullptr;       // [count]
  const Accumulator<T>* values = nullptr;  // [count, width]
  int64_t count = 0;
  int64_t width = 0;
};

// The rows of a SparseGradient whose i-th values are those of row indices[i].
std::vector<KeyAndIndex> SortRows(const int64_t* indices, int64_t count);

// Updates the weights of `update`, [rows, width], whose biases are not used, by
// the sums of each row's values. These are made in the order of `rows`, so that
// the bits depend neither on the threads nor on the other rows. No row is
// checked. Costs one read of the values, one read and write of the touched rows
// and slots.
template <typename T>
void SparseUpdate(const Update<T>& update, const SparseGradient<T>& gradient,
                  const Parallel& parallel);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SPARSE_UPDATE_H_
