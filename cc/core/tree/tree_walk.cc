#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

std::string NotPinned(int64_t group, int64_t first, int64_t last) {
  return At("group_offsets", group, first) + " and " +
         At("group_offsets", group + 1, last) + ", but group g of a pinned " +
         "tree has the two rows 2 g and 2 g + 1";
}

// Whether the group after that of a root, whose first row is `first`, is below
// it or another root's, since trees follow each other. So a -1 that is forged
// makes a forest or an error, though no array says how many roots there are
// where labels are rows.
bool FollowsTrees(const TreeView& tree, int64_t group, int64_t first) {
  if (group + 1 == tree.num_groups) return true;
  const int64_t next = tree.group_parents[group + 1];
  return next == -1 || next >= first;
}

}  // namespace

std::string At(const char* array, int64_t index, int64_t value) {
  return std::string(array) + "[" + std::to_string(index) +
         "] = " + std::to_string(value);
}

std::string OutOfRange(const char* array, int64_t index, int64_t value,
                       int64_t low, int64_t high) {
  return At(array, index, value) + " is outside [" + std::to_string(low) +
         ", " + std::to_string(high) + ")";
}

std::string GroupOf(const TreeView& tree, int64_t row, int64_t below,
                    GroupSpan* span) {
  const int64_t group = tree.row_groups[row];
  if (group < 0 || group >= tree.num_groups) {
    return OutOfRange("row_groups", row, group, 0, tree.num_groups);
  }
  const int64_t first = tree.group_offsets[group];
  const int64_t last = tree.group_offsets[group + 1];
  if (first < 0 || first > row) {
    return OutOfRange("group_offsets", group, first, 0, row + 1);
  }
  if (last <= row || last > tree.num_rows) {
    return OutOfRange("group_offsets", group + 1, last, row + 1,
                      tree.num_rows + 1);
  }
  if (!tree.allows(group, first, last)) {
    return NotPinned(group, first, last);
  }
  const int64_t parent = tree.group_parents[group];
  if (group == 0 && parent != -1) {
    return At("group_parents", 0, parent) +
           ", but the root's group has the parent -1";
  }
  // A forest has roots further on.
  const int64_t least = group == 0 || tree.num_roots > 1 ? -1 : 0;
  if (parent < least || parent >= first) {
    return OutOfRange("group_parents", group, parent, least, first);
  }
  if (parent < 0 && tree.num_roots > 1 && !FollowsTrees(tree, group, first)) {
    return At("group_parents", group, parent) + " is a root's, but " +
           At("group_parents", group + 1, tree.group_parents[group + 1]) +
           " is no row of its tree, nor the -1 of the next root";
  }
  if (group >= below) {
    return At("row_groups", row, group) +
           ", but a parent's group must come before its child's, " +
           std::to_string(below);
  }
  *span = {group, first, last - first};
  return "";
}

std::string GroupAt(const TreeView& tree, int64_t group, GroupSpan* span) {
  const int64_t first = tree.group_offsets[group];
  const int64_t last = tree.group_offsets[group + 1];
  if (first < 0 || first >= tree.num_rows) {
    return OutOfRange("group_offsets", group, first, 0, tree.num_rows);
  }
  if (last <= first || last > tree.num_rows) {
    return OutOfRange("group_offsets", group + 1, last, first + 1,
                      tree.num_rows + 1);
  }
  if (!tree.allows(group, first, last)) {
    return NotPinned(group, first, last);
  }
  *span = {group, first, last - first};
  return "";
}

std::string NotBelow(const TreeView& tree, int64_t group) {
  int64_t row = tree.group_offsets[group];
  while (IsBelow(tree, group, tree.row_below[row])) ++row;
  return At("row_below", row, tree.row_below[row]) +
         " is neither -1 - class of a class in [0, " +
         std::to_string(tree.num_classes) + ") nor a group in [" +
         std::to_string(group + 1) + ", " + std::to_string(tree.num_groups) +
         ")";
}

}  // namespace tf_hsm
