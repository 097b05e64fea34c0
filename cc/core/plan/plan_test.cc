// The plan of a batch against the path of each example, one after another: in
// one part and in many, of trees and forests, deep and shallow.

#include "cc/core/plan/plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/plan/node_parts.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

struct Pass {
  int64_t first = -1, past = -1;  // the examples of a group
  int64_t depth = 0;
};

// Each group's examples, and that these are neighbours.
std::map<int64_t, Pass> PassesOf(const TreeView& tree, const Plan& plan,
                                 const std::vector<int64_t>& labels) {
  std::map<int64_t, Pass> passes;
  for (int64_t at = 0; at < plan.num_examples(); ++at) {
    const auto path = PathOf(tree, labels[plan.order[at]]);
    for (size_t i = 0; i < path.size(); ++i) {
      Pass& pass = passes[tree.row_groups[path[i]]];
      if (pass.first < 0) {
        pass.first = at;
      } else {
        Expect(pass.past == at, "the examples of a group are neighbours");
      }
      pass.past = at + 1;
      pass.depth = static_cast<int64_t>(path.size() - 1 - i);
    }
  }
  return passes;
}

void CheckPlan(const TreeView& tree, const Plan& plan,
               const std::vector<int64_t>& labels, const std::string& name) {
  const std::map<int64_t, Pass> passes = PassesOf(tree, plan, labels);
  const int64_t num_nodes = static_cast<int64_t>(plan.nodes.size());
  Expect(plan.nodes.size() == passes.size(), name + " number of nodes");
  std::vector<int64_t> descendants(num_nodes);
  for (int64_t i = num_nodes - 1; i >= 0; --i) {
    const Node& node = plan.nodes[i];
    const auto found = passes.find(node.group);
    if (found == passes.end()) {
      Expect(false, name + " a group that nobody passes");
      continue;
    }
    const Pass& pass = found->second;
    Expect(node.begin == pass.first && node.end == pass.past, name + " range");
    Expect(node.depth == pass.depth, name + " depth");
    Expect(node.first_row == tree.group_offsets[node.group] &&
               node.fanout == tree.group_offsets[node.group + 1] -
                                  tree.group_offsets[node.group],
           name + " rows");
    Expect(i == 0 || plan.nodes[i - 1].begin <= node.begin, name + " order");
    Expect(node.after == i + 1 + descendants[i], name + " after");
    const int64_t row = tree.group_parents[node.group];
    if (row < 0) {
      Expect(node.parent == -1, name + " of a root");
      continue;
    }
    Expect(node.parent >= 0 && node.parent < i &&
               plan.nodes[node.parent].group == tree.row_groups[row] &&
               node.parent_local == row - plan.nodes[node.parent].first_row,
           name + " parent");
    descendants[node.parent] += 1 + descendants[i];
  }
  for (int64_t at = 0; at < plan.num_examples(); ++at) {
    const int64_t row = tree.class_rows[labels[plan.order[at]]];
    const Node& node = plan.nodes[plan.leaf_node[at]];
    Expect(node.first_row + plan.leaf_local[at] == row, name + " leaf");
  }
  Expect(plan.span % kBlockExamples == 0 &&
             plan.span <= kMaxSpanBlocks * kBlockExamples,
         name + " span");
}

void CheckCase(int64_t batch, int64_t trees, int groups, int most, double inner,
               bool pinned, std::mt19937* rng) {
  const OwnedTree owned = RandomForest(trees, groups, most, inner, rng, pinned);
  const TreeView tree = owned.view();
  // Some labels occur far more often than others, and some never.
  std::vector<int64_t> labels(batch);
  for (int64_t& label : labels) {
    label = std::min((*rng)() % tree.num_classes, (*rng)() % tree.num_classes);
  }
  const std::string name =
      "B=" + std::to_string(batch) + " " + std::to_string(trees) + " trees";
  Plan plan, other;
  Expect(MakePlan(tree, labels.data(), batch, {}, &plan).empty(), name);
  CheckPlan(tree, plan, labels, name);
  // Makes the plan from other parts, the last one first.
  Expect(SortExamples(tree, labels.data(), batch, {}, &other).empty(), name);
  NodeParts parts(tree, labels.data(), &other, 1 + (*rng)() % 300);
  for (int64_t i = parts.count(); i-- > 0;) parts.Make(i);
  Expect(parts.Finish(Reversed).empty(), name);
  CheckPlan(tree, other, labels, name + " in parts");
  Expect(plan.num_passes == other.num_passes && plan.by_group == other.by_group,
         name + " offsets");
}

// A row that is none is found in whichever part it is; of two, the first one.
void CheckErrors(std::mt19937* rng) {
  const int64_t batch = 10000;
  OwnedTree owned = RandomTree(300, 2, 0.6, rng);
  std::vector<int64_t> labels(batch);
  for (int64_t i = 0; i < batch; ++i) {
    labels[i] = i % static_cast<int64_t>(owned.class_rows.size());
  }
  Plan plan;
  for (int64_t rank : {0, 100, 250}) {
    OwnedTree forged = owned;
    const auto at = std::find(owned.ranks.begin(), owned.ranks.end(), rank);
    if (at == owned.ranks.end()) continue;
    const int64_t label = at - owned.ranks.begin();
    const auto last = std::max_element(owned.ranks.begin(), owned.ranks.end());
    forged.class_rows[last - owned.ranks.begin()] = -6;
    forged.class_rows[label] = -5;
    const std::string error =
        MakePlan(forged.view(), labels.data(), batch, {}, &plan);
    Expect(error.find("class_rows[" + std::to_string(label) + "] = -5") == 0,
           error);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  for (int64_t batch : {0, 1, 33, 2047, 2048, 2500, 5000, 40000}) {
    CheckCase(batch, 1, 1, 5, 0, false, &rng);
    CheckCase(batch, 1, 400, 2, 0.7, false, &rng);
    CheckCase(batch, 1, 3000, 2, 0.6, true, &rng);
    CheckCase(batch, 1, 60, 40, 0.2, false, &rng);
    CheckCase(batch, 3, 300, 3, 0.5, false, &rng);
    CheckCase(batch, 7, 9, 2, 0.9, true, &rng);
    // A chain.
    CheckCase(batch, 1, 700, 2, 0, true, &rng);
  }
  CheckErrors(&rng);
  return Summarize();
}
