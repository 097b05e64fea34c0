// A forest as the ops see it: arrays that somebody else owns, of which each op
// has those that it needs. A tree is a forest of one root.
//
// Trees follow each other, and so do their classes' ranks. In each, rows are
// breadth-first and siblings contiguous: group g owns the rows
// [group_offsets[g], group_offsets[g + 1]); the first group of a tree is its
// root's; groups are numbered in the order of their parent rows. So
// num_rows = num_classes + num_groups - num_roots. The arrays may hold
// anything: whoever reads them checks each value before using it as an index,
// along the paths that are really walked, so that no call does O(classes) work.
//
// A pinned tree has two rows in every group, of which the second has no weights
// and the logit 0: the difference of the two logits is all that counts. So
// group g owns the rows 2g and 2g + 1, and the parameters have a row per group,
// that of its first row.

#ifndef TF_HSM_CC_CORE_TREE_TREE_VIEW_H_
#define TF_HSM_CC_CORE_TREE_TREE_VIEW_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_hsm {

struct TreeView {
  int64_t num_classes = 0;
  int64_t num_rows = 0;
  int64_t num_groups = 0;
  const int64_t* group_offsets = nullptr;  // [num_groups + 1]
  const int64_t* group_parents = nullptr;  // [num_groups], a row; -1: root
  const int64_t* class_rows = nullptr;     // [num_classes], the leaf's row
  const int64_t* row_groups = nullptr;     // [num_rows]
  const int64_t* class_ranks = nullptr;    // [num_classes], depth-first rank
  // [num_rows]: the group below the row, or -1 - class of a leaf.
  const int64_t* row_below = nullptr;
  int64_t num_roots = 1;
  // [num_roots], the first group of each tree: ascending, from 0; checked by
  // whoever makes the view. Null for one tree, and for walks up that do not
  // ask which tree they are in.
  const int64_t* root_groups = nullptr;
  bool pinned = false;

  // The number of weight rows, and the weight row of a row that has weights.
  TF_HSM_HOST_DEVICE int64_t num_weight_rows() const {
    return pinned ? num_groups : num_rows;
  }
  TF_HSM_HOST_DEVICE int64_t weight_row(int64_t row) const {
    return pinned ? row / 2 : row;
  }
  TF_HSM_HOST_DEVICE bool has_weights(int64_t row) const {
    return !pinned || row % 2 == 0;
  }
  // How many rows of a group of `fanout` rows have weights: the first ones.
  TF_HSM_HOST_DEVICE int64_t weight_rows_of(int64_t fanout) const {
    return pinned ? fanout / 2 : fanout;
  }
  // Whether a group that has the rows [first, last) is one of such a tree.
  TF_HSM_HOST_DEVICE bool allows(int64_t group, int64_t first,
                                 int64_t last) const {
    return !pinned || (first == 2 * group && last == 2 * group + 2);
  }

  int64_t root_group(int64_t root) const {
    return root_groups == nullptr ? 0 : root_groups[root];
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TREE_TREE_VIEW_H_
