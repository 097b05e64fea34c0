// One step of an update rule on some rows of a variable, in place.

#ifndef TF_HSM_CC_CORE_API_SPARSE_UPDATE_H_
#define TF_HSM_CC_CORE_API_SPARSE_UPDATE_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/base/radix_sort.h"
#include "cc/core/base/types.h"
#include "cc/core/update/sparse_gradient.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

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

// Reserves, on this thread, what SparseUpdate of this width asks of its memory:
// once it has changed a row, it needs no more on such threads. Throws
// std::bad_alloc.
template <typename T>
void ReserveSparseUpdate(int64_t width);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SPARSE_UPDATE_H_
