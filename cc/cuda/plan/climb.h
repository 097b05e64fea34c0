// The path of a label, from the leaf up to a root, on arrays that may be wrong:
// every value of the forest is checked before it is an index.

#ifndef TF_HSM_CC_CUDA_PLAN_CLIMB_H_
#define TF_HSM_CC_CUDA_PLAN_CLIMB_H_

#include <cstdint>

#include "cc/core/plan/plan.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

// What the labels' kernels read.
struct Labels {
  TreeView tree;
  TreeShape shape;
  const void* labels;
  bool int64;
  int64_t size;
  int num_ignored;
  int64_t ignored[kMaxIgnored];

  TF_HSM_DEVICE int64_t At(int64_t example) const {
    return int64 ? static_cast<const int64_t*>(labels)[example]
                 : static_cast<const int32_t*>(labels)[example];
  }
  TF_HSM_DEVICE bool Ignored(int64_t label) const {
    for (int i = 0; i < num_ignored; ++i) {
      if (ignored[i] == label) return true;
    }
    return false;
  }
};

// The group of a row; -1 if the arrays around it are wrong, or if the group is
// larger than the shape of the tree says.
TF_HSM_DEVICE int64_t GroupOfRow(const TreeView& tree, const TreeShape& shape,
                                 int64_t row) {
  if (row < 0 || row >= tree.num_rows) return -1;
  const int64_t group = tree.row_groups[row];
  if (group < 0 || group >= tree.num_groups) return -1;
  const int64_t first = tree.group_offsets[group];
  const int64_t last = tree.group_offsets[group + 1];
  if (first < 0 || first > row || last <= row || last > tree.num_rows) {
    return -1;
  }
  if (!tree.allows(group, first, last)) return -1;
  const int64_t fanout = last - first;
  if (fanout > shape.max_fanout) return -1;
  if (fanout <= kMaxSmallFanout && fanout > shape.small_fanout) return -1;
  const int64_t parent = tree.group_parents[group];
  return parent >= -1 && parent < first ? group : -1;
}

// The groups on the path of a leaf; 0 if the path is wrong.
TF_HSM_DEVICE int DepthOf(const TreeView& tree, const TreeShape& shape,
                          int64_t row) {
  int64_t large = 0;
  for (int depth = 1; depth <= shape.depth; ++depth) {
    const int64_t group = GroupOfRow(tree, shape, row);
    if (group < 0) return 0;
    const int64_t fanout =
        tree.group_offsets[group + 1] - tree.group_offsets[group];
    if (fanout > kMaxSmallFanout && ++large > shape.large_depth) return 0;
    row = tree.group_parents[group];
    if (row < 0) return depth;
  }
  return 0;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_CLIMB_H_
