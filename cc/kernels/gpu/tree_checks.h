// What is wrong with a tree as a whole: kernels on a device cannot say it.

#ifndef TF_HSM_CC_KERNELS_GPU_TREE_CHECKS_H_
#define TF_HSM_CC_KERNELS_GPU_TREE_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm::gpu {

// Checks that the arrays that walks up take do not contradict each other.
// Returns an empty string, or a sentence that names an array, a position and
// its value.
std::string CheckTreeAbove(const TreeView& tree);

// The arrays for walks up that belong to those for walks down.
struct ArraysAbove {
  std::vector<int64_t> group_parents;
  std::vector<int64_t> class_rows;
  std::vector<int64_t> row_groups;
  std::vector<int64_t> class_ranks;
};

// Makes them of group_offsets, row_below and root_groups, which FindLevels has
// checked, and points `tree` at them.
void FindArraysAbove(TreeView* tree, ArraysAbove* arrays);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_TREE_CHECKS_H_
