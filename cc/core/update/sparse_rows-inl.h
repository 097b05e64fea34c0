// The rows of a sparse update: sums of the values that name one row, applied
// while they are in the cache.
//
// Costs one read of the values, one read and write of the rows and slots. Both
// lie anywhere in memory, and are prefetched.

#ifndef TF_HSM_CC_CORE_UPDATE_SPARSE_ROWS_INL_H_
#define TF_HSM_CC_CORE_UPDATE_SPARSE_ROWS_INL_H_

#include <cstdint>

#include "cc/core/base/prefetch.h"
#include "cc/core/base/radix_sort.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/vector-inl.h"
#include "cc/core/update/sparse_gradient.h"
#include "cc/core/update/update_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// sum += value
template <typename A>
void AddRow(const A* value, int64_t width, A* sum) {
  constexpr int lanes = kLanes<A>;
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    Store(sum + d, Load(sum + d) + Load(value + d));
  }
  for (; d < width; ++d) sum[d] += value[d];
}

template <typename T>
void ReserveRows(int64_t width) {
  Scratch<Accumulator<T>>(width);
}

// See kernel_table.h.
template <typename T>
void SparseRows(const Update<T>& update, const SparseGradient<T>& gradient,
                const KeyAndIndex* begin, const KeyAndIndex* end) {
  using A = Accumulator<T>;
  // Rows are prefetched this many values ahead.
  constexpr int64_t kAhead = 2;
  const int64_t width = gradient.width;
  // There is nothing to change, and the values may be null.
  if (width == 0) return;
  while (begin != end) {
    const int64_t row = begin->key;
    const A* value = gradient.values + begin->index * width;
    if (end - begin > kAhead) {
      Prefetch(gradient.values + begin[kAhead].index * width, width);
      Prefetch(update.weights + begin[kAhead].key * width, width);
    }
    ++begin;
    if (begin != end && begin->key == row) {
      A* sum = Scratch<A>(width);
      __builtin_memcpy(sum, value, width * sizeof(A));
      for (; begin != end && begin->key == row; ++begin) {
        AddRow(gradient.values + begin->index * width, width, sum);
      }
      value = sum;
    }
    UpdateWeights(update, row, 1, width, value);
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_SPARSE_ROWS_INL_H_
