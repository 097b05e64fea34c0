// FindLevels: the levels of trees and forests, what it says of arrays that are
// none, and that what it accepts is a tree to the log-probabilities.

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/log_probs.h"
#include "cc/core/api/log_probs_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

void CheckSays(const OwnedTree& tree, const std::string& part) {
  std::vector<int64_t> levels;
  const std::string error = FindLevels(tree.view(), &levels);
  Expect(error.find(part) != std::string::npos,
         "'" + error + "' should say '" + part + "'");
}

// The root's group has the rows 0 to 2; group 1 lies below row 1, group 2 below
// row 3.
OwnedTree SmallTree() {
  OwnedTree tree;
  tree.offsets = {0, 3, 5, 7};
  tree.parents = {-1, 1, 3};
  tree.row_groups = {0, 0, 0, 1, 1, 2, 2};
  tree.class_rows = {0, 2, 4, 5, 6};
  tree.row_below = {~0, 1, ~1, 2, ~2, ~3, ~4};
  return tree;
}

void CheckLevels(std::mt19937* rng) {
  std::vector<int64_t> levels;
  const OwnedTree right = SmallTree();
  Expect(FindLevels(right.view(), &levels).empty() &&
             levels == std::vector<int64_t>({0, 1, 2, 3}),
         "the levels of a small tree");
  auto says = [&](std::vector<int64_t> OwnedTree::* array, int64_t at,
                  int64_t value, const std::string& part) {
    OwnedTree tree = right;
    (tree.*array)[at] = value;
    CheckSays(tree, part);
  };
  says(&OwnedTree::offsets, 0, 1, "group_offsets[0] = 1 is outside [0, 1)");
  says(&OwnedTree::offsets, 1, 0, "group_offsets[1] = 0 is outside [1, 8)");
  says(&OwnedTree::offsets, 2, 8, "group_offsets[2] = 8 is outside [4, 8)");
  says(&OwnedTree::offsets, 3, 6, "group_offsets[3] = 6 is not the number of");
  says(&OwnedTree::row_below, 0, ~1, "row_below[2] = -2 is a second leaf");
  says(&OwnedTree::row_below, 0, ~5, "row_below[0] = -6 is neither");
  says(&OwnedTree::row_below, 3, 1, "row_below[3] = 1 is neither");
  says(&OwnedTree::row_below, 3, 3, "row_below[3] = 3 is neither");
  says(&OwnedTree::row_below, 1, 2, "row_below[1] = 2, but groups stand");
  says(&OwnedTree::row_below, 1, ~2, "no row has group 1 below it");
  says(&OwnedTree::row_below, 3, INT64_MIN, "row_below[3] = -9223372036854775");

  // Runs of groups that are not below each other, of two trees and of four.
  OwnedTree two = right;
  two.offsets = {0, 3, 5, 7, 9, 10};
  two.parents = {-1, 1, 3, -1, 7};
  two.row_groups = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4};
  two.class_rows = {0, 2, 4, 5, 6, 8, 9};
  two.row_below = {~0, 1, ~1, 2, ~2, ~3, ~4, 4, ~5, ~6};
  two.roots = {0, 3};
  Expect(FindLevels(two.view(), &levels).empty() &&
             levels == std::vector<int64_t>({0, 1, 2, 4, 5}),
         "the levels of two trees");
  two.roots = {0, 2};
  CheckSays(two,
            "row_below[3] = 2, but that group is a root's: root_groups[1]");
  two.roots = {0, 4};
  CheckSays(two, "row_below: no row has group 3 below it");
  two.roots = {};
  CheckSays(two, "row_below: no row has group 3 below it");
  const OwnedTree four = RandomForest(4, 1, 5, 0, rng);
  Expect(FindLevels(four.view(), &levels).empty() &&
             levels == std::vector<int64_t>({0, 4}),
         "the level of trees of one group");

  // What is accepted is a tree, or a forest.
  int64_t accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    const int trees = 1 + i % 3;
    Head<float> head =
        RandomHead<float>({2, 3, 9 / trees, 4, 0.5, trees}, false, rng);
    head.starts.clear();
    Corrupt(&head.owned, rng);
    if (!FindLevels(head.tree(), &levels).empty()) continue;
    ++accepted;
    const TreeView tree = head.tree();
    const Outputs<float> out = Run<float>(head.On(Isa::kBaseline), false,
                                          RandomGrads(head, false, rng));
    for (int64_t at = 0; at < head.batch * tree.num_rows; ++at) {
      Expect(std::isfinite(out.dz[at]), "dz of a tree that was accepted");
    }
    for (int64_t i = 0; i < head.batch; ++i) {
      double mass = 0;
      for (int64_t c = 0; c < tree.num_classes; ++c) {
        mass += std::exp(out.values[i * tree.num_classes + c]);
      }
      Near(mass, trees, 1e-5, "the mass of trees that were accepted");
    }
  }
  Expect(accepted > 100 && accepted < 2500, "corrupted trees that are refused");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937 rng(1);
  tf_hsm::CheckLevels(&rng);
  return tf_hsm::Summarize();
}
