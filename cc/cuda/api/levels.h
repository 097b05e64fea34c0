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

namespace tf_hsm::gpu {

// The order of groups and rows by level, in device memory. All pointers are
// null if groups are numbered by level already.
struct Places {
  const int64_t* offsets = nullptr;  // [num_groups + 1], rows before each place
  const int64_t* groups = nullptr;   // [num_groups], the group at each place
  const int64_t* places = nullptr;   // [num_groups], the place of each group
  const int64_t* rows = nullptr;     // [num_rows], the row at each place
};

struct Levels {
  std::vector<int64_t> starts;   // the first place of a level, then num_groups
  std::vector<int64_t> offsets;  // `Places::offsets` in host memory
  Places places;
};

// Makes `starts` and `offsets`. Fills `numbers` with the arrays that `places`
// will point at; for a tree, which is numbered by level, with none. `tree` is
// in host memory, and valid. O(tree) work.
Levels MakeLevels(const TreeView& tree, std::vector<int64_t>* numbers);

// Returns the arrays of `numbers`, which is a device's copy of them.
Places PlacesIn(const TreeView& tree, const int64_t* numbers);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_API_LEVELS_H_
