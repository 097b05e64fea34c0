// The groups of a forest level after level, as what goes down it takes them.
//
// The place of a group is its number in that order: the roots come first, and
// groups of one level stand in the order of their numbers. Rows stand in the
// order of their groups' places. In a tree every group and row has the place of
// its number; in a forest this is the order that its groups would have below
// one more root.

#ifndef TF_HSM_CC_CUDA_API_LEVELS_H_
#define TF_HSM_CC_CUDA_API_LEVELS_H_

#include <cstdint>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {
namespace gpu {

// In device memory; all null where every place is that of the number.
struct Places {
  const int64_t* offsets = nullptr;  // [num_groups + 1], rows before each place
  const int64_t* groups = nullptr;   // [num_groups], the group at each place
  const int64_t* places = nullptr;   // [num_groups], the place of each group
  const int64_t* rows = nullptr;     // [num_rows], the row at each place
};

struct Levels {
  std::vector<int64_t> starts;   // the first place of each, then num_groups
  std::vector<int64_t> offsets;  // as that of places
  Places places;
};

// Makes all but `places`, and the numbers that these point at: none for a tree.
// `tree` is in host memory, and right. O(tree) work.
Levels MakeLevels(const TreeView& tree, std::vector<int64_t>* numbers);

// `numbers` on the device.
Places PlacesIn(const TreeView& tree, const int64_t* numbers);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_LEVELS_H_
