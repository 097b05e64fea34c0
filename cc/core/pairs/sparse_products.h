// Products of a sparse matrix, and of its square, with a dense one.

#ifndef TF_HSM_CC_CORE_PAIRS_SPARSE_PRODUCTS_H_
#define TF_HSM_CC_CORE_PAIRS_SPARSE_PRODUCTS_H_

#include <cstdint>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// A matrix [num_rows, num_columns]. The entries row_splits[r] to
// row_splits[r + 1] are in row r.
struct SparseMatrix {
  int64_t num_rows;
  int64_t num_columns;
  const int64_t* row_splits;  // [num_rows + 1]
  const int32_t* columns;     // of each entry, in [0, num_columns)
  const float* values;        // of each entry
};

// Writes `matrix` times `dense [num_columns, width]`, `[num_rows, width]`.
//
// Each sum has the order of the entries. Blocks of columns of `dense` are
// copied so that a cache holds more of a block.
void SparseProduct(const SparseMatrix& matrix, const float* dense,
                   int64_t width, float* product, const Parallel& parallel);

// Writes the transpose of `matrix` times `matrix` times `dense`,
// `[num_columns, width]`.
//
// No transpose is made: a row of the inner product, once it is there, is added
// to the rows of the result that it is for. A thread does so for a block of
// columns of `dense`.
void SquareProduct(const SparseMatrix& matrix, const float* dense,
                   int64_t width, float* product, const Parallel& parallel);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PAIRS_SPARSE_PRODUCTS_H_
