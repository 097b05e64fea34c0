// Trees and forests for tests: of given shapes, and random ones.

#ifndef TF_HSM_CC_CORE_TESTING_TREES_H_
#define TF_HSM_CC_CORE_TESTING_TREES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

struct OwnedTree {
  std::vector<int64_t> offsets = {0}, parents, class_rows, row_groups, ranks,
                       row_below;
  std::vector<int64_t> roots;  // their groups, if there are several
  bool pinned = false;
  TreeView view() const {
    TreeView view = {static_cast<int64_t>(class_rows.size()),
                     static_cast<int64_t>(row_groups.size()),
                     static_cast<int64_t>(parents.size()),
                     offsets.data(),
                     parents.data(),
                     class_rows.data(),
                     row_groups.data(),
                     ranks.data(),
                     row_below.data()};
    if (roots.size() > 1) {
      view.num_roots = roots.size();
      view.root_groups = roots.data();
    }
    view.pinned = pinned;
    return view;
  }

  // Adds the row number row_groups.size(), to the last group. Returns it.
  // Group `below` is below it; -1: none, it is a leaf.
  int64_t AddRow(int64_t below) {
    const int64_t row = row_groups.size();
    row_groups.push_back(offsets.size() - 1);
    row_below.push_back(below);
    if (below >= 0) parents.push_back(row);
    return row;
  }

  // All rows depth-first, each before those below it.
  std::vector<int64_t> DepthFirst() const {
    std::vector<int64_t> rows, open;  // the next one last
    auto push = [&](int64_t g) {
      for (int64_t r = offsets[g + 1]; r-- > offsets[g];) open.push_back(r);
    };
    for (int64_t g = parents.size(); g-- > 0;) {
      if (parents[g] < 0) push(g);
    }
    while (!open.empty()) {
      rows.push_back(open.back());
      open.pop_back();
      if (row_below[rows.back()] >= 0) push(row_below[rows.back()]);
    }
    return rows;
  }

  // Numbers the classes, which class_rows names, in row_below, and ranks them
  // depth-first.
  void NameClasses() {
    for (size_t c = 0; c < class_rows.size(); ++c) {
      row_below[class_rows[c]] = ~static_cast<int64_t>(c);
    }
    ranks.resize(class_rows.size());
    int64_t rank = 0;
    for (int64_t row : DepthFirst()) {
      if (row_below[row] < 0) ranks[~row_below[row]] = rank++;
    }
  }
};

// Grows a tree breadth-first: below(depth, local, fanout) is the fanout of the
// group below a row, 0 for a leaf. Classes stand in the order of the leaves'
// rows.
inline OwnedTree GrowTree(
    int64_t root_fanout,
    const std::function<int64_t(int64_t, int64_t, int64_t)>& below) {
  OwnedTree tree;
  std::vector<int64_t> fanouts = {root_fanout}, depths = {0};
  tree.parents = {-1};
  for (size_t g = 0; g < fanouts.size(); ++g) {
    for (int64_t k = 0; k < fanouts[g]; ++k) {
      const int64_t fanout = below(depths[g], k, fanouts[g]);
      if (fanout == 0) {
        tree.class_rows.push_back(tree.AddRow(-1));
        continue;
      }
      tree.AddRow(fanouts.size());
      fanouts.push_back(fanout);
      depths.push_back(depths[g] + 1);
    }
    tree.offsets.push_back(tree.row_groups.size());
  }
  tree.NameClasses();
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

// Row number `inner` of each group has the next one below it.
inline OwnedTree ChainTree(int64_t depth, int64_t fanout, int64_t inner = 0) {
  return GrowTree(fanout, [=](int64_t d, int64_t k, int64_t) {
    return k == inner && d + 1 < depth ? fanout : int64_t{0};
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

// A breadth-first tree of `groups` groups with fanouts drawn from [1, most], or
// a pinned one; `inner` is the chance that a row has a group below it.
template <typename Rng>
OwnedTree RandomTree(int groups, int most, double inner, Rng* rng,
                     bool pinned = false) {
  OwnedTree tree;
  tree.pinned = pinned;
  tree.parents = {-1};
  std::uniform_real_distribution<double> uniform(0, 1);
  int64_t waiting = 1;  // groups promised to rows
  for (int64_t g = 0; g < waiting; ++g) {
    const int64_t fanout =
        pinned ? 2 : 1 + static_cast<int64_t>((*rng)() % most);
    for (int64_t k = 0; k < fanout; ++k) {
      const bool last_chance = g + 1 == waiting && k + 1 == fanout;
      const bool grows =
          waiting < groups && (uniform(*rng) < inner || last_chance);
      const int64_t row = tree.AddRow(grows ? waiting++ : -1);
      if (!grows) tree.class_rows.push_back(row);
    }
    tree.offsets.push_back(tree.row_groups.size());
  }
  std::shuffle(tree.class_rows.begin(), tree.class_rows.end(), *rng);
  tree.NameClasses();
  return tree;
}

// A forest of these trees, whose classes are shuffled. All are pinned, or none.
template <typename Rng>
OwnedTree JoinTrees(const std::vector<OwnedTree>& trees, Rng* rng) {
  OwnedTree all;
  all.pinned = trees[0].pinned;
  for (const OwnedTree& tree : trees) {
    const int64_t first_group = all.parents.size();
    const int64_t first_row = all.row_groups.size();
    all.roots.push_back(first_group);
    for (size_t g = 0; g < tree.parents.size(); ++g) {
      all.parents.push_back(g == 0 ? -1 : first_row + tree.parents[g]);
      all.offsets.push_back(first_row + tree.offsets[g + 1]);
    }
    for (size_t row = 0; row < tree.row_groups.size(); ++row) {
      all.row_groups.push_back(first_group + tree.row_groups[row]);
      all.row_below.push_back(first_group + tree.row_below[row]);
    }
    for (int64_t row : tree.class_rows) {
      all.class_rows.push_back(first_row + row);
    }
  }
  for (size_t c = all.class_rows.size(); c > 1; --c) {
    std::swap(all.class_rows[c - 1], all.class_rows[(*rng)() % c]);
  }
  all.NameClasses();
  return all;
}

// A forest of so many random trees.
template <typename Rng>
OwnedTree RandomForest(int trees, int groups, int most, double inner, Rng* rng,
                       bool pinned = false) {
  std::vector<OwnedTree> all;
  do {
    all.push_back(RandomTree(groups, most, inner, rng, pinned));
  } while (static_cast<int>(all.size()) < trees);
  return trees < 2 ? all[0] : JoinTrees(all, rng);
}

// Lists of the classes that a search may find, by their ranks: list i has the
// ranks [splits[i], splits[i + 1]), ascending.
struct RankLists {
  std::vector<int64_t> ranks, splits = {0};

  // Whether an example may find a class of this rank. All may share a list.
  bool Has(int64_t example, int64_t rank) const {
    const int64_t list = splits.size() == 2 ? 0 : example;
    return std::binary_search(ranks.begin() + splits[list],
                              ranks.begin() + splits[list + 1], rank);
  }
};

// The rows on the path of a label, from its leaf up.
inline std::vector<int64_t> PathOf(const TreeView& tree, int64_t label) {
  std::vector<int64_t> path;
  for (int64_t row = tree.class_rows[label]; row >= 0;
       row = tree.group_parents[tree.row_groups[row]]) {
    path.push_back(row);
  }
  return path;
}

// The number of the tree that each group is in.
inline std::vector<int64_t> RootsOfGroups(const TreeView& tree) {
  std::vector<int64_t> roots;
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    const int64_t before = roots.empty() ? -1 : roots.back();
    roots.push_back(before + (tree.group_parents[g] < 0));
  }
  return roots;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_TREES_H_
