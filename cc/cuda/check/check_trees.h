// Forests for gpu_check.cc, and trees on the device.

#ifndef TF_HSM_CC_CUDA_CHECK_CHECK_TREES_H_
#define TF_HSM_CC_CUDA_CHECK_CHECK_TREES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "cc/core/testing/trees.h"
#include "cc/cuda/api/levels.h"
#include "cc/cuda/device/device_array.h"

namespace tf_hsm {
namespace gpu {

// Trees of all kinds, one of a single class among them.
inline OwnedTree MixedForest(std::mt19937* rng) {
  return JoinTrees({BinaryTree(3), FlatTree(1), TwoLevelTree(70), FlatTree(45),
                    ChainTree(6, 3), RandomTree(9, 20, 0.3, rng)},
                   rng);
}

// `count` small trees.
inline OwnedTree WideForest(int64_t count, std::mt19937* rng) {
  std::vector<OwnedTree> trees;
  for (int64_t i = 0; i < count; ++i) {
    trees.push_back(i % 3 == 0 ? FlatTree(2 + i % 13) : SkewedTree(3, rng));
  }
  return JoinTrees(trees, rng);
}

// A tree's arrays on the device.
struct DeviceTree {
  explicit DeviceTree(const OwnedTree& tree) : DeviceTree(tree, tree.view()) {}
  // Takes arrays that may be wrong, and the sizes of `view`.
  DeviceTree(const OwnedTree& tree, const TreeView& view)
      : offsets(tree.offsets),
        parents(tree.parents),
        class_rows(tree.class_rows),
        row_groups(tree.row_groups),
        ranks(tree.ranks),
        below(tree.row_below),
        host(view) {}

  TreeView view() const {
    return {host.num_classes,  host.num_rows,  host.num_groups,
            offsets.data(),    parents.data(), class_rows.data(),
            row_groups.data(), ranks.data(),   below.data(),
            host.num_roots,    nullptr,        host.pinned};
  }

  DeviceArray<int64_t> offsets, parents, class_rows, row_groups, ranks, below;
  TreeView host;
};

// A forest's levels, on the device too.
struct DeviceLevels {
  explicit DeviceLevels(const OwnedTree& tree)
      : levels(MakeLevels(tree.view(), &numbers)), device(numbers) {
    if (!numbers.empty()) {
      levels.places = PlacesIn(tree.view(), device.data());
    }
  }
  DeviceLevels(const DeviceLevels&) = delete;

  std::vector<int64_t> numbers;
  Levels levels;
  const DeviceArray<int64_t> device;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_CHECK_TREES_H_
