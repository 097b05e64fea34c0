#include "cc/kernels/gpu/tree_checks.h"

#include <algorithm>
#include <limits>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm::gpu {
namespace {

// Whether all rows are labels, rows of inner nodes included.
bool LabelsAreRows(const TreeView& tree) {
  return tree.num_classes == tree.num_rows;
}

// tree.num_roots follows from the other sizes, unless labels are rows.
std::string WrongRoots(const TreeView& tree) {
  return ", but " + std::to_string(tree.num_classes) + " classes and " +
         std::to_string(tree.num_groups) + " groups of " +
         std::to_string(tree.num_rows) + " rows are those of " +
         std::to_string(tree.num_roots) + " trees";
}

std::string CheckGroups(const TreeView& tree) {
  int64_t roots = 0, first_row = 0;  // of the tree that a group is in
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    GroupSpan span;
    const std::string error = GroupAt(tree, g, &span);
    if (!error.empty()) return error;
    const int64_t last = span.first_row + span.fanout;
    for (int64_t row = span.first_row; row < last; ++row) {
      if (tree.row_groups[row] == g) continue;
      return At("row_groups", row, tree.row_groups[row]) + ", but group " +
             std::to_string(g) + " has that row";
    }
    const int64_t parent = tree.group_parents[g];
    if (g == 0 && parent != -1) {
      return At("group_parents", 0, parent) +
             ", but the root's group has the parent -1";
    }
    if (parent == -1) {
      if (++roots > tree.num_roots && !LabelsAreRows(tree)) {
        return At("group_parents", g, parent) + " is root number " +
               std::to_string(roots) + WrongRoots(tree);
      }
      first_row = span.first_row;
    } else if (parent < first_row || parent >= span.first_row) {
      return OutOfRange("group_parents", g, parent, first_row, span.first_row) +
             ", the rows of its tree before its own, and not the -1 of a root";
    }
  }
  for (const int64_t g : {int64_t{0}, tree.num_groups}) {
    const int64_t row = g == 0 ? 0 : tree.num_rows;
    if (tree.group_offsets[g] == row) continue;
    return At("group_offsets", g, tree.group_offsets[g]) +
           ", but the groups must have all rows: " + std::to_string(row);
  }
  if (roots == tree.num_roots || LabelsAreRows(tree)) return "";
  return "group_parents has " + std::to_string(roots) +
         " times the -1 of a root" + WrongRoots(tree);
}

// Ranks of the labels at and below a row.
struct RankSpan {
  int64_t low = std::numeric_limits<int64_t>::max();
  int64_t high = -1;
  int64_t count = 0;

  void Add(const RankSpan& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    count += other.count;
  }
  bool has_gaps() const { return high - low + 1 != count; }
};

// After CheckGroups.
std::string CheckLabels(const TreeView& tree) {
  std::vector<RankSpan> below(tree.num_rows);
  std::vector<bool> taken(tree.num_classes);
  for (int64_t c = 0; c < tree.num_classes; ++c) {
    const int64_t row = tree.class_rows[c], rank = tree.class_ranks[c];
    if (row < 0 || row >= tree.num_rows) {
      return OutOfRange("class_rows", c, row, 0, tree.num_rows);
    }
    if (rank < 0 || rank >= tree.num_classes) {
      return OutOfRange("class_ranks", c, rank, 0, tree.num_classes);
    }
    if (below[row].count > 0 || taken[rank]) {
      return below[row].count > 0
                 ? At("class_rows", c, row) + " is another class's row too"
                 : At("class_ranks", c, rank) + " is another class's rank too";
    }
    below[row] = {rank, rank, 1};
    taken[rank] = true;
  }
  int64_t end = tree.num_classes;  // of the ranks of the trees up to this one
  for (int64_t g = tree.num_groups - 1; g >= 0; --g) {
    RankSpan span;
    for (int64_t row = tree.group_offsets[g]; row < tree.group_offsets[g + 1];
         ++row) {
      span.Add(below[row]);
    }
    const int64_t parent = tree.group_parents[g];
    const bool is_taken = parent >= 0 && below[parent].count > 0;
    if (is_taken && (below[parent].count > 1 || !LabelsAreRows(tree))) {
      return At("group_parents", g, parent) +
             " is the row of a class or of another group too";
    }
    bool has_gaps = span.has_gaps();
    if (is_taken) {
      span.Add(below[parent]);
      has_gaps = has_gaps || span.has_gaps();
    }
    if (has_gaps || (parent < 0 && span.high + 1 != end)) {
      return "class_ranks is not the depth-first order of this tree's " +
             std::string(LabelsAreRows(tree) ? "rows" : "leaves") + ", below " +
             At("group_parents", g, parent);
    }
    if (parent < 0) {
      end = span.low;
    } else {
      below[parent] = span;
    }
  }
  return "";
}

}  // namespace

std::string CheckTreeAbove(const TreeView& tree) {
  const std::string error = CheckGroups(tree);
  return error.empty() ? CheckLabels(tree) : error;
}

void FindArraysAbove(TreeView* tree, ArraysAbove* arrays) {
  arrays->group_parents.assign(tree->num_groups, -1);
  arrays->class_rows.resize(tree->num_classes);
  arrays->row_groups.resize(tree->num_rows);
  arrays->class_ranks.resize(tree->num_classes);
  for (int64_t g = 0; g < tree->num_groups; ++g) {
    for (int64_t row = tree->group_offsets[g]; row < tree->group_offsets[g + 1];
         ++row) {
      const int64_t below = tree->row_below[row];
      arrays->row_groups[row] = g;
      if (below >= 0) {
        arrays->group_parents[below] = row;
      } else {
        arrays->class_rows[~below] = row;
      }
    }
  }
  // Leaves below each group, then the rank of the first of them.
  std::vector<int64_t> leaves(tree->num_groups), ranks(tree->num_groups);
  auto leaves_of = [&](int64_t row) {
    const int64_t below = tree->row_below[row];
    return below < 0 ? 1 : leaves[below];
  };
  for (int64_t g = tree->num_groups; g-- > 0;) {
    for (int64_t row = tree->group_offsets[g]; row < tree->group_offsets[g + 1];
         ++row) {
      leaves[g] += leaves_of(row);
    }
  }
  int64_t before = 0;  // leaves of the trees before
  for (int64_t root = 0; root < tree->num_roots; ++root) {
    ranks[tree->root_group(root)] = before;
    before += leaves[tree->root_group(root)];
  }
  for (int64_t g = 0; g < tree->num_groups; ++g) {
    int64_t rank = ranks[g];
    for (int64_t row = tree->group_offsets[g]; row < tree->group_offsets[g + 1];
         ++row) {
      const int64_t below = tree->row_below[row];
      (below < 0 ? arrays->class_ranks[~below] : ranks[below]) = rank;
      rank += leaves_of(row);
    }
  }
  tree->group_parents = arrays->group_parents.data();
  tree->class_rows = arrays->class_rows.data();
  tree->row_groups = arrays->row_groups.data();
  tree->class_ranks = arrays->class_ranks.data();
}

}  // namespace tf_hsm::gpu
