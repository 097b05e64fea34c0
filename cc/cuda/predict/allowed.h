// Which classes a search may find, by a sorted list of their ranks.
//
// The classes below a row are an interval of ranks, as on the CPU
// (cc/core/api/class_mask.h). Walks down to the first and to the last of them
// find its ends: O(depth) loads for a node, one for a class.

#ifndef TF_HSM_CC_CUDA_PREDICT_ALLOWED_H_
#define TF_HSM_CC_CUDA_PREDICT_ALLOWED_H_

#include <cstdint>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm {
namespace gpu {

// The rank of the first class (`to_last`: 0) or of the last (1) at or below
// what TreeView::row_below has as `below`; -1 if the arrays have none there.
TF_HSM_DEVICE int64_t RankBelow(const TreeView& tree, int64_t below,
                                int to_last) {
  int64_t group = -1;
  while (below > group) {
    if (below >= tree.num_groups) return -1;
    group = below;
    const int64_t row = tree.group_offsets[group + to_last] - to_last;
    if (row < 0 || row >= tree.num_rows) return -1;
    below = tree.row_below[row];
  }
  return below < 0 && ~below < tree.num_classes ? tree.class_ranks[~below] : -1;
}

// Whether an example may find a class at or below `below`.
TF_HSM_DEVICE bool IsAllowed(const TreeView& tree, const AllowedRanks& allowed,
                             int64_t example, int64_t below) {
  if (allowed.splits == nullptr) return true;
  const int64_t* splits =
      allowed.splits + (allowed.num_lists == 1 ? 0 : example);
  const int64_t first = RankBelow(tree, below, 0), end = splits[1];
  int64_t low = splits[0], high = end;  // the first rank that is not below
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (allowed.ranks[middle] < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < end && allowed.ranks[low] <= RankBelow(tree, below, 1);
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PREDICT_ALLOWED_H_
