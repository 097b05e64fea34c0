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

// sum += factor * value, which rounds like an addition where factor is 1.
template <typename A>
void AddRow(const A* value, A factor, int64_t width, A* sum) {
  constexpr int lanes = kLanes<A>;
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    Store(sum + d, Load(sum + d) + Load(value + d) * factor);
  }
  for (; d < width; ++d) sum[d] += value[d] * factor;
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
  constexpr int64_t kAhead = 8;
  const int64_t width = gradient.width;
  // There is nothing to change, and the values may be null.
  if (width == 0) return;
  auto ask = [&](const KeyAndIndex* one) {
    if (end - one <= kAhead) return;
    Prefetch(gradient.ValuesOf(one[kAhead]), width);
    if (one[kAhead].key == one[kAhead - 1].key) return;
    Prefetch(update.weights + one[kAhead].key * width, width);
  };
  while (begin != end) {
    const int64_t row = begin->key;
    const A* value = gradient.ValuesOf(*begin);
    const A factor = gradient.FactorOf(*begin);
    ask(begin);
    ++begin;
    if (factor != 1 || (begin != end && begin->key == row)) {
      A* sum = Scratch<A>(width);
      for (int64_t d = 0; d < width; ++d) sum[d] = value[d] * factor;
      for (; begin != end && begin->key == row; ++begin) {
        ask(begin);
        AddRow(gradient.ValuesOf(*begin), gradient.FactorOf(*begin), width,
               sum);
      }
      value = sum;
    }
    UpdateWeights(update, row, 1, width, value);
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_SPARSE_ROWS_INL_H_
