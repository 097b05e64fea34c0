// The gradient of some rows, of which each may be named several times.

#ifndef TF_HSM_CC_CORE_UPDATE_SPARSE_GRADIENT_H_
#define TF_HSM_CC_CORE_UPDATE_SPARSE_GRADIENT_H_

#include <cstdint>

#include "cc/core/base/radix_sort.h"
#include "cc/core/base/types.h"

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

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_SPARSE_GRADIENT_H_
