// Steps up and down a tree whose arrays may hold anything: each value is
// checked before it is used as an index. The functions return an empty string,
// or a sentence that names the array, the position, the value and its range.

#ifndef TF_HSM_CC_CORE_TREE_TREE_WALK_H_
#define TF_HSM_CC_CORE_TREE_TREE_WALK_H_

#include <cstdint>
#include <string>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// The rows of a group.
struct GroupSpan {
  int64_t group = 0;
  int64_t first_row = 0;
  int64_t fanout = 0;
};

// "array[index] = value"
std::string At(const char* array, int64_t index, int64_t value);
// "array[index] = value is outside [low, high)"
std::string OutOfRange(const char* array, int64_t index, int64_t value,
                       int64_t low, int64_t high);

// The group that `row` belongs to, which must come before the group `below`: a
// walk up such groups ends. Its parent is checked too: a row before the group,
// or -1 of a root's group, which no group of an earlier tree may follow. Groups
// of a pinned tree must have their two rows.
std::string GroupOf(const TreeView& tree, int64_t row, int64_t below,
                    GroupSpan* span);

// Group number `group`, which must be one, found from above; likewise.
std::string GroupAt(const TreeView& tree, int64_t group, GroupSpan* span);

// Whether tree.row_below holds a class or a later group at a row of `group`:
// a walk down such values ends.
inline bool IsBelow(const TreeView& tree, int64_t group, int64_t below) {
  return below < 0 ? ~below < tree.num_classes
                   : below > group && below < tree.num_groups;
}
// The error of the first row of `group`, which has one, that does not.
std::string NotBelow(const TreeView& tree, int64_t group);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TREE_TREE_WALK_H_
