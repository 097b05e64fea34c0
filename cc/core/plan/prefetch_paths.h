// Asking for the arrays of a tree on the paths of labels before they are
// walked.

#ifndef TF_HSM_CC_CORE_PLAN_PREFETCH_PATHS_H_
#define TF_HSM_CC_CORE_PLAN_PREFETCH_PATHS_H_

#include <cstdint>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// Labels are known so far ahead.
constexpr int64_t kAhead = 32;

// Leaves whose paths are prefetched together.
constexpr int64_t kPrefetchLeaves = 16;

// The first groups, near the root, are in the cache at any time.
constexpr int64_t kCachedGroups = 1024;

// Reads what the walks from a few leaves will read, level by level: the arrays
// are read at random places, and these reads do not wait for each other. In a
// pinned tree a row's group is known without a look; walks check it all the
// same.
inline void PrefetchPaths(const TreeView& tree, const int64_t* leaves,
                          int64_t count) {
  constexpr int kLevels = 24;
  int64_t rows[kPrefetchLeaves];
  for (int64_t i = 0; i < count; ++i) rows[i] = leaves[i];
  for (int level = 0; level < kLevels; ++level) {
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i] < 0 || rows[i] >= tree.num_rows) continue;
      int64_t group = rows[i] / 2;
      if (tree.pinned) {
        __builtin_prefetch(tree.row_groups + rows[i]);
      } else {
        group = tree.row_groups[rows[i]];
      }
      if (group < kCachedGroups || group >= tree.num_groups) {
        rows[i] = -1;
        continue;
      }
      __builtin_prefetch(tree.group_offsets + group);
      rows[i] = tree.group_parents[group];
    }
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_PREFETCH_PATHS_H_
