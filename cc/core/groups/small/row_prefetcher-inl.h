// Prefetches the weights of small groups.

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_ROW_PREFETCHER_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_ROW_PREFETCHER_INL_H_

#include <cstdint>

#include "cc/core/groups/problem.h"
#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Prefetches the vectors at a column of two rows, the second of which follows,
// or, of a pinned group, of the only one.
template <bool pinned, typename T>
TF_HSM_INLINE void PrefetchPair(const T* row, int64_t width) {
  __builtin_prefetch(row, 0, 2);
  if constexpr (!pinned) __builtin_prefetch(row + width, 0, 2);
}

// The rows of the small groups that a span of examples is still to read, in
// its order and two at a time. They lie anywhere in memory: each product of
// rows asks for as many of these as it reads, vector by vector, since memory
// serves few requests at once. Products with many examples get ahead of the
// reader, and those with one or two find their rows in the second cache.
template <typename T>
class RowPrefetcher {
 public:
  // Those of the nodes from `first` on that begin before example `end`.
  RowPrefetcher(const Problem<T>& problem, int64_t first, int64_t end)
      : problem_(problem), node_(first), end_(end) {
    SkipLarge();
  }

  // Whether there are any, and not too many on their way; then rows[0 .. count)
  // are the next ones, of which the last may be there several times.
  bool Next(int count, const T** rows) {
    if (!HasNode() || asked_ - used_ > kMaxBytes) return false;
    for (int i = 0; i < count; ++i) {
      if (!HasNode()) {
        rows[i] = rows[i - 1];
        continue;
      }
      const Plan& plan = *problem_.plan;
      const Node& node = plan.nodes[node_];
      const int64_t first = plan.FirstWeightRow(node);
      rows[i] = problem_.weights + (first + local_) * problem_.width;
      const int64_t left = plan.NumWeightRows(node) - local_;
      asked_ += Bytes(left < 2 ? left : 2);
      local_ += 2;
      if (left > 2) continue;
      local_ = 0;
      ++node_;
      SkipLarge();
    }
    return true;
  }

  // Counts one more of those nodes as read.
  void Used(const Node& node) {
    used_ += Bytes(problem_.plan->NumWeightRows(node));
  }

 private:
  // About as much as a second cache has room for beside the examples.
  static constexpr int64_t kMaxBytes = int64_t{96} << 10;

  int64_t Bytes(int64_t rows) const {
    return rows * problem_.width * static_cast<int64_t>(sizeof(T));
  }

  bool HasNode() const {
    const auto& nodes = problem_.plan->nodes;
    return node_ < static_cast<int64_t>(nodes.size()) &&
           nodes[node_].begin < end_;
  }

  void SkipLarge() {
    while (HasNode() && problem_.plan->nodes[node_].fanout > kMaxSmallFanout) {
      ++node_;
    }
  }

  const Problem<T>& problem_;
  int64_t node_, local_ = 0;  // the next ones: a node, and a row of its group
  const int64_t end_;
  int64_t asked_ = 0, used_ = 0;  // bytes
};

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_ROW_PREFETCHER_INL_H_
