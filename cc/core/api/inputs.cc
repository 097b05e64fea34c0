#include "cc/core/api/inputs.h"

#include <algorithm>

#include "cc/core/base/prefetch.h"
#include "cc/core/base/types.h"

namespace tf_hsm {
template <typename X, typename A>
void PackInputs(const int64_t* order, int64_t count, const X* x, int64_t width,
                const Parallel& parallel, A* packed) {
  constexpr int64_t kRows = 64;
  // Rows lie anywhere in memory, and are prefetched this many rows ahead.
  constexpr int64_t kAhead = 2;
  const int64_t padded = Padded(width);
  // Any number of examples may have no numbers.
  const int64_t items = padded == 0 ? 0 : (count + kRows - 1) / kRows;
  auto row = [&](int64_t at) {
    return x + (order == nullptr ? at : order[at]) * width;
  };
  parallel(items, [&](int64_t i) {
    const int64_t end = std::min((i + 1) * kRows, count);
    for (int64_t at = i * kRows; at < end; ++at) {
      const X* from = row(at);
      if (at + kAhead < end) Prefetch(row(at + kAhead), width);
      A* to = packed + at * padded;
      for (int64_t d = 0; d < width; ++d) to[d] = ToAccumulator(from[d]);
      std::fill(to + width, to + padded, A(0));
    }
  });
}

template <typename X, typename A>
void PackSums(const Bags<A>& bags, const X* x, int64_t width,
              const Parallel& parallel, A* packed) {
  constexpr int64_t kExamples = 16;
  // Rows lie anywhere in memory, and are prefetched this many pairs ahead.
  constexpr int64_t kAhead = 4;
  const int64_t padded = Padded(width), count = bags.num_examples();
  const int64_t pairs = bags.rows.size();
  const int64_t items = padded == 0 ? 0 : (count + kExamples - 1) / kExamples;
  parallel(items, [&](int64_t i) {
    const int64_t end = std::min((i + 1) * kExamples, count);
    for (int64_t at = i * kExamples; at < end; ++at) {
      A* to = packed + at * padded;
      std::fill(to, to + padded, A(0));
      for (int64_t p = bags.starts[at]; p < bags.starts[at + 1]; ++p) {
        if (p + kAhead < pairs) {
          Prefetch(x + bags.rows[p + kAhead] * width, width);
        }
        const X* from = x + bags.rows[p] * width;
        const A factor = bags.factors[p];
        for (int64_t d = 0; d < width; ++d) {
          to[d] += factor * ToAccumulator(from[d]);
        }
      }
    }
  });
}

#define TF_HSM_INSTANTIATE(T, ...)                                \
  template decltype(PackInputs<T, float>) PackInputs<T, float>;   \
  template decltype(PackInputs<T, double>) PackInputs<T, double>; \
  template decltype(PackSums<T, float>) PackSums<T, float>;       \
  template decltype(PackSums<T, double>) PackSums<T, double>;
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
