#include "cc/core/plan/plan.h"

#include <algorithm>
#include <numeric>

#include "cc/core/base/radix_sort.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Leaves whose paths are prefetched together.
constexpr int64_t kPrefetchLeaves = 16;

// Reads what the walks from a few leaves will read, level by level: the arrays
// are read at random places, and these reads do not wait for each other. In a
// pinned tree a row's group is known without a look; walks check it all the
// same.
void PrefetchPaths(const TreeView& tree, const int64_t* leaves, int64_t count) {
  constexpr int kLevels = 24;
  int64_t rows[kPrefetchLeaves];
  std::copy(leaves, leaves + count, rows);
  for (int level = 0; level < kLevels; ++level) {
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i] < 0 || rows[i] >= tree.num_rows) continue;
      int64_t group = rows[i] / 2;
      if (tree.pinned) {
        __builtin_prefetch(tree.row_groups + rows[i]);
      } else {
        group = tree.row_groups[rows[i]];
      }
      if (group < 0 || group >= tree.num_groups) continue;
      __builtin_prefetch(tree.group_offsets + group);
      rows[i] = tree.group_parents[group];
    }
  }
}

// Grows the nodes of a plan, one leaf after another in depth-first order.
class NodeBuilder {
 public:
  NodeBuilder(const TreeView& tree, Plan* plan) : tree_(tree), plan_(*plan) {}

  // Adds the example at sorted position `at`, whose leaf is `row`.
  std::string Add(int64_t at, int64_t row) {
    climb_.clear();
    int64_t joined = -1;
    for (int64_t at_row = row; joined < 0;) {
      const int64_t below =
          climb_.empty() ? tree_.num_groups : climb_.back().span.group;
      GroupSpan span;
      std::string error = GroupOf(tree_, at_row, below, &span);
      if (!error.empty()) return error;
      while (!open_.empty() && plan_.nodes[open_.back()].group > span.group) {
        Close(at);
      }
      const int64_t local = at_row - span.first_row;
      if (!open_.empty() && plan_.nodes[open_.back()].group == span.group) {
        joined = open_.back();
        leaf_local_ = local;
        break;
      }
      climb_.push_back({span, local});
      at_row = tree_.group_parents[span.group];
      if (at_row < 0) {
        CloseAll(at);  // the tree before
        break;
      }
    }
    while (!climb_.empty()) {
      const Step& step = climb_.back();
      const int64_t parent = joined;
      joined = static_cast<int64_t>(plan_.nodes.size());
      Node& node = plan_.nodes.emplace_back();
      node.group = step.span.group;
      node.first_row = step.span.first_row;
      node.fanout = step.span.fanout;
      node.begin = at;
      if (parent >= 0) {
        node.parent = parent;
        node.parent_local = leaf_local_;
        node.depth = plan_.nodes[parent].depth + 1;
      }
      leaf_local_ = step.local;
      open_.push_back(joined);
      climb_.pop_back();
    }
    plan_.leaf_node[at] = joined;
    plan_.leaf_local[at] = leaf_local_;
    return "";
  }

  // Ends the nodes of a tree before the sorted position `at`.
  void CloseAll(int64_t at) {
    while (!open_.empty()) Close(at);
  }

 private:
  struct Step {
    GroupSpan span;
    int64_t local;  // the row on the path
  };

  void Close(int64_t at) {
    Node& node = plan_.nodes[open_.back()];
    node.end = at;
    node.after = static_cast<int64_t>(plan_.nodes.size());
    open_.pop_back();
  }

  const TreeView& tree_;
  Plan& plan_;
  std::vector<int64_t> open_;  // the path of nodes that still grow
  std::vector<Step> climb_;    // to new nodes, from the leaf upwards
  int64_t leaf_local_ = 0;
};

// Breadth-first numbering makes a stable sort by depth a sort by group, in each
// tree.
std::string SortByGroup(Plan* plan) {
  std::vector<Node>& nodes = plan->nodes;
  const int64_t num_nodes = static_cast<int64_t>(nodes.size());
  std::vector<int64_t> starts;
  plan->by_group.resize(num_nodes);
  for (int64_t root = 0, past; root < num_nodes; root = past) {
    past = nodes[root].after;
    starts.assign(1, root);
    for (int64_t i = root; i < past; ++i) {
      const int64_t depth = nodes[i].depth;
      if (depth + 1 >= static_cast<int64_t>(starts.size())) {
        starts.resize(depth + 2);
      }
      ++starts[depth + 1];
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (int64_t i = root; i < past; ++i) {
      plan->by_group[starts[nodes[i].depth]++] = i;
    }
  }
  int64_t last_group = -1;
  int64_t last_row = 0;
  for (int64_t index : plan->by_group) {
    Node& node = nodes[index];
    if (node.group <= last_group || node.first_row < last_row) {
      return "class_ranks is not the depth-first order of this tree's leaves, "
             "or its groups are not breadth-first: group " +
             std::to_string(node.group) + " (rows from " +
             std::to_string(node.first_row) + ") comes after group " +
             std::to_string(last_group);
    }
    last_group = node.group;
    last_row = node.first_row + node.fanout;
    node.row_offset = plan->num_rows;
    plan->num_rows += plan->NumWeightRows(node);
  }
  return "";
}

}  // namespace

std::string MakePlan(const TreeView& tree, const int64_t* labels, int64_t batch,
                     const std::vector<int64_t>& ignored, Plan* plan) {
  const std::string error = SortExamples(tree, labels, batch, ignored, plan);
  return error.empty() ? AddNodes(tree, labels, plan) : error;
}

std::string SortExamples(const TreeView& tree, const int64_t* labels,
                         int64_t batch, const std::vector<int64_t>& ignored,
                         Plan* plan) {
  *plan = Plan();
  plan->pinned = tree.pinned;
  std::vector<KeyAndIndex> ranked;  // rank and example
  ranked.reserve(batch);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t label = labels[i];
    if (std::find(ignored.begin(), ignored.end(), label) != ignored.end()) {
      continue;
    }
    if (label < 0 || label >= tree.num_classes) {
      return OutOfRange("labels", i, label, 0, tree.num_classes) +
             ", the tree's classes; a label that stands for no class is "
             "passed as ignore_class";
    }
    ranked.push_back({tree.class_ranks[label], i});
  }
  SortByKey(&ranked);
  plan->order.reserve(ranked.size());
  for (const KeyAndIndex& one : ranked) plan->order.push_back(one.index);
  return "";
}

std::string AddNodes(const TreeView& tree, const int64_t* labels, Plan* plan) {
  const int64_t count = plan->num_examples();
  plan->leaf_node.resize(count);
  plan->leaf_local.resize(count);
  std::vector<int64_t> leaves(count);
  for (int64_t at = 0; at < count; ++at) {
    leaves[at] = tree.class_rows[labels[plan->order[at]]];
  }
  plan->nodes.reserve(std::min(2 * count, tree.num_groups));
  NodeBuilder builder(tree, plan);
  for (int64_t at = 0; at < count; ++at) {
    if (at % kPrefetchLeaves == 0) {
      PrefetchPaths(tree, &leaves[at], std::min(kPrefetchLeaves, count - at));
    }
    const int64_t label = labels[plan->order[at]];
    if (at > 0 && label == labels[plan->order[at - 1]]) {
      plan->leaf_node[at] = plan->leaf_node[at - 1];
      plan->leaf_local[at] = plan->leaf_local[at - 1];
      continue;
    }
    const int64_t row = leaves[at];
    if (row < 0 || row >= tree.num_rows) {
      return OutOfRange("class_rows", label, row, 0, tree.num_rows);
    }
    std::string error = builder.Add(at, row);
    if (!error.empty()) return error;
  }
  builder.CloseAll(count);
  std::string error = SortByGroup(plan);
  if (!error.empty()) return error;
  int64_t num_targets = 0;
  for (Node& node : plan->nodes) {
    if (node.fanout > kMaxSmallFanout) {
      node.target_offset = num_targets;
      num_targets += node.population();
    }
    node.pass_offset = plan->num_passes;
    node.prob_offset = plan->num_probs;
    plan->num_passes += node.population();
    plan->num_probs += node.population() * node.fanout;
  }
  plan->targets.resize(num_targets);
  for (const Node& node : plan->nodes) {
    if (node.fanout <= kMaxSmallFanout) continue;
    FillTargets(*plan, node, node.begin, node.end,
                plan->targets.data() + node.target_offset);
  }
  return "";
}

void TouchedRows(const Plan& plan, int64_t* rows) {
  for (int64_t index : plan.by_group) {
    const Node& node = plan.nodes[index];
    std::iota(rows + node.row_offset,
              rows + node.row_offset + plan.NumWeightRows(node),
              plan.FirstWeightRow(node));
  }
}

void FillTargets(const Plan& plan, const Node& node, int64_t begin, int64_t end,
                 int64_t* targets) {
  ForTargets(plan, node, begin, end,
             [=](int64_t at, int64_t target) { targets[at - begin] = target; });
}

}  // namespace tf_hsm
