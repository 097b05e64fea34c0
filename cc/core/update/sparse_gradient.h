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
  using A = Accumulator<T>;
  const KeyAndIndex* rows = nullptr;  // [count]
  const A* values = nullptr;          // [count, width], the rows at `stride`
  int64_t count = 0;
  int64_t width = 0;
  // Where several rows share values: [count] by index, which of `values` these
  // are, and what they are multiplied by. Null: its own, once.
  const int64_t* places = nullptr;
  const A* factors = nullptr;
  int64_t stride = 0;  // at least the width; 0: the width

  const A* ValuesOf(const KeyAndIndex& one) const {
    return values + (places ? places[one.index] : one.index) *
                        (stride == 0 ? width : stride);
  }
  A FactorOf(const KeyAndIndex& one) const {
    return factors ? factors[one.index] : A(1);
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_SPARSE_GRADIENT_H_
