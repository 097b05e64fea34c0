// Trees and forests of given shapes for gpu_check.cc.

#ifndef TF_HSM_CC_CUDA_CHECK_CHECK_TREES_H_
#define TF_HSM_CC_CUDA_CHECK_CHECK_TREES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "cc/core/testing/test_support.h"
#include "cc/cuda/api/levels.h"
#include "cc/cuda/device/device_array.h"

namespace tf_hsm {
namespace gpu {

// Grows a tree breadth-first: below(depth, local, fanout) is the fanout of the
// group below a row, 0 for a leaf. Classes stand in the order of the leaves'
// rows.
inline OwnedTree GrowTree(
    int64_t root_fanout,
    const std::function<int64_t(int64_t, int64_t, int64_t)>& below) {
  OwnedTree tree;
  std::vector<int64_t> fanouts = {root_fanout}, depths = {0}, child;
  tree.parents = {-1};
  for (size_t g = 0; g < fanouts.size(); ++g) {
    for (int64_t k = 0; k < fanouts[g]; ++k) {
      const int64_t row = child.size();
      const int64_t fanout = below(depths[g], k, fanouts[g]);
      tree.row_groups.push_back(g);
      if (fanout == 0) {
        child.push_back(-1);
        tree.class_rows.push_back(row);
        continue;
      }
      child.push_back(fanouts.size());
      tree.parents.push_back(row);
      fanouts.push_back(fanout);
      depths.push_back(depths[g] + 1);
    }
    tree.offsets.push_back(child.size());
  }
  std::vector<int64_t> classes(child.size(), -1);
  for (size_t c = 0; c < tree.class_rows.size(); ++c) {
    classes[tree.class_rows[c]] = c;
  }
  for (size_t r = 0; r < child.size(); ++r) {
    tree.row_below.push_back(child[r] < 0 ? ~classes[r] : child[r]);
  }
  tree.ranks.resize(tree.class_rows.size());
  int64_t rank = 0;
  std::vector<int64_t> stack;
  auto push = [&](int64_t g) {
    for (int64_t r = tree.offsets[g + 1]; r-- > tree.offsets[g];) {
      stack.push_back(r);
    }
  };
  push(0);
  while (!stack.empty()) {
    const int64_t row = stack.back();
    stack.pop_back();
    if (child[row] < 0) {
      tree.ranks[classes[row]] = rank++;
    } else {
      push(child[row]);
    }
  }
  return tree;
}

inline OwnedTree FlatTree(int64_t classes) {
  return GrowTree(classes, [](int64_t, int64_t, int64_t) { return 0; });
}

// About sqrt(classes) groups; the last one is smaller.
inline OwnedTree TwoLevelTree(int64_t classes) {
  int64_t groups = 1;
  while (groups * groups < classes) ++groups;
  const int64_t most = (classes + groups - 1) / groups;
  groups = (classes + most - 1) / most;
  return GrowTree(groups, [=](int64_t depth, int64_t k, int64_t) {
    if (depth > 0) return int64_t{0};
    return k + 1 < groups ? most : classes - most * (groups - 1);
  });
}

inline OwnedTree BinaryTree(int64_t depth) {
  return GrowTree(2, [=](int64_t d, int64_t, int64_t) {
    return d + 1 < depth ? int64_t{2} : int64_t{0};
  });
}

// Each group has one leaf fewer than rows.
inline OwnedTree ChainTree(int64_t depth, int64_t fanout) {
  return GrowTree(fanout, [=](int64_t d, int64_t k, int64_t) {
    return k == 0 && d + 1 < depth ? fanout : int64_t{0};
  });
}

// Binary, with leaves at many depths, like the tree of a Zipf distribution.
inline OwnedTree SkewedTree(int64_t groups, std::mt19937* rng) {
  int64_t left = groups - 1;
  return GrowTree(2, [&, rng](int64_t, int64_t k, int64_t) {
    const bool grows = left > 0 && (k == 1 || (*rng)() % 3 != 0);
    left -= grows ? 1 : 0;
    return grows ? int64_t{2} : int64_t{0};
  });
}

// A tree of groups of two rows, of which the second have no weights.
inline OwnedTree Pinned(OwnedTree tree) {
  tree.pinned = true;
  return tree;
}

// A forest of these trees, whose classes stand in any order. All are pinned, or
// none.
inline OwnedTree JoinTrees(const std::vector<OwnedTree>& trees,
                           std::mt19937* rng) {
  OwnedTree forest;
  forest.pinned = trees[0].pinned;
  for (const OwnedTree& tree : trees) {
    const int64_t groups = forest.parents.size();
    const int64_t rows = forest.row_groups.size();
    const int64_t classes = forest.class_rows.size();
    for (size_t g = 0; g < tree.parents.size(); ++g) {
      forest.offsets.push_back(rows + tree.offsets[g + 1]);
      forest.parents.push_back(g == 0 ? -1 : rows + tree.parents[g]);
    }
    for (const int64_t g : tree.row_groups) {
      forest.row_groups.push_back(groups + g);
    }
    for (const int64_t below : tree.row_below) {
      forest.row_below.push_back(below < 0 ? below - classes : groups + below);
    }
    for (size_t c = 0; c < tree.class_rows.size(); ++c) {
      forest.class_rows.push_back(rows + tree.class_rows[c]);
      forest.ranks.push_back(classes + tree.ranks[c]);
    }
  }
  std::vector<int64_t> names(forest.class_rows.size());
  std::iota(names.begin(), names.end(), 0);
  std::shuffle(names.begin(), names.end(), *rng);
  const OwnedTree ordered = forest;
  for (size_t c = 0; c < names.size(); ++c) {
    forest.class_rows[names[c]] = ordered.class_rows[c];
    forest.ranks[names[c]] = ordered.ranks[c];
    forest.row_below[ordered.class_rows[c]] = ~names[c];
  }
  return forest;
}

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

// The numbers of a forest's view for which OwnedTree has no arrays.
inline TreeView ViewOf(const OwnedTree& tree) {
  TreeView view = tree.view();
  view.num_roots = std::count(tree.parents.begin(), tree.parents.end(), -1);
  return view;
}

// A tree's arrays on the device.
struct DeviceTree {
  explicit DeviceTree(const OwnedTree& tree) : DeviceTree(tree, ViewOf(tree)) {}
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
      : levels(MakeLevels(ViewOf(tree), &numbers)), device(numbers) {
    if (!numbers.empty()) {
      levels.places = PlacesIn(ViewOf(tree), device.data());
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
