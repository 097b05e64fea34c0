#include "cc/core/api/class_path.h"

#include <algorithm>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// The root whose group is `group`.
std::string RootOf(const TreeView& tree, int64_t group, int64_t* root) {
  *root = 0;
  if (tree.root_groups == nullptr) return "";
  const int64_t* end = tree.root_groups + tree.num_roots;
  const int64_t* found = std::lower_bound(tree.root_groups, end, group);
  if (found == end || *found != group) {
    return At("group_parents", group, -1) +
           ", but the group is not one of root_groups";
  }
  *root = found - tree.root_groups;
  return "";
}

}  // namespace

std::string AddPath(const TreeView& tree, const char* name, int64_t at,
                    int64_t label, int64_t example, std::vector<Step>* steps,
                    int64_t* root) {
  if (label < 0 || label >= tree.num_classes) {
    return OutOfRange(name, at, label, 0, tree.num_classes) +
           ", the tree's classes";
  }
  int64_t row = tree.class_rows[label];
  if (row < 0 || row >= tree.num_rows) {
    return OutOfRange("class_rows", label, row, 0, tree.num_rows);
  }
  int64_t below = tree.num_groups;
  while (row >= 0) {
    GroupSpan span;
    std::string error = GroupOf(tree, row, below, &span);
    if (!error.empty()) return error;
    below = span.group;
    steps->push_back({span.group, example, row - span.first_row,
                      static_cast<int64_t>(steps->size())});
    row = tree.group_parents[span.group];
  }
  return RootOf(tree, below, root);
}

}  // namespace tf_hsm
