// The rows of a sparse update, compiled once per ISA (sparse_rows.cc).

#ifndef TF_HSM_CC_CORE_SPARSE_ROWS_H_
#define TF_HSM_CC_CORE_SPARSE_ROWS_H_

#include <cstdint>

#include "cc/core/isa.h"
#include "cc/core/radix_sort.h"
#include "cc/core/sparse_update.h"

namespace tf_hsm {

// Updates the rows that are the keys of [begin, end), sorted, by the values at
// the places in the gradient that are their indices: of no row are there
// others.
template <typename T>
using SparseRows = void (*)(const Update<T>&, const SparseGradient<T>&,
                            const KeyAndIndex* begin, const KeyAndIndex* end);

// That of one ISA, which must be supported.
template <typename T>
SparseRows<T> SparseRowsFor(Isa isa);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SPARSE_ROWS_H_
