#include "cc/core/plan/plan.h"

#include <algorithm>
#include <numeric>

#include "cc/core/base/parallel.h"
#include "cc/core/base/radix_sort.h"
#include "cc/core/plan/node_parts.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// The ranks of labels lie anywhere in memory: they are asked for so many
// labels ahead.
constexpr int64_t kAhead = 32;

// Breadth-first numbering makes a stable sort by depth a sort by group, in each
// tree.
std::string SortByGroup(Plan* plan) {
  std::vector<Node>& nodes = plan->nodes;
  const int64_t num_nodes = static_cast<int64_t>(nodes.size());
  // What is read in another order than that of the nodes fits a cache, where
  // they would not.
  struct Span {
    int64_t group, first_row, fanout, depth;
  };
  std::vector<Span> spans;
  spans.reserve(num_nodes);
  for (const Node& node : nodes) {
    spans.push_back({node.group, node.first_row, node.fanout, node.depth});
  }
  std::vector<int64_t> starts;
  plan->by_group.resize(num_nodes);
  for (int64_t root = 0, past; root < num_nodes; root = past) {
    past = nodes[root].after;
    starts.assign(1, root);
    for (int64_t i = root; i < past; ++i) {
      const int64_t depth = spans[i].depth;
      if (depth + 1 >= static_cast<int64_t>(starts.size())) {
        starts.resize(depth + 2);
      }
      ++starts[depth + 1];
    }
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (int64_t i = root; i < past; ++i) {
      plan->by_group[starts[spans[i].depth]++] = i;
    }
  }
  int64_t last_group = -1;
  int64_t last_row = 0;
  for (int64_t index : plan->by_group) {
    const Span& span = spans[index];
    if (span.group <= last_group || span.first_row < last_row) {
      return "class_ranks is not the depth-first order of this tree's leaves, "
             "or its groups are not breadth-first: group " +
             std::to_string(span.group) + " (rows from " +
             std::to_string(span.first_row) + ") comes after group " +
             std::to_string(last_group);
    }
    last_group = span.group;
    last_row = span.first_row + span.fanout;
    nodes[index].row_offset = plan->num_rows;
    plan->num_rows += plan->pinned ? 1 : span.fanout;
  }
  return "";
}

}  // namespace

std::string MakePlan(const TreeView& tree, const int64_t* labels, int64_t batch,
                     const std::vector<int64_t>& ignored, Plan* plan) {
  const std::string error = SortExamples(tree, labels, batch, ignored, plan);
  if (!error.empty()) return error;
  NodeParts parts(tree, labels, plan);
  for (int64_t i = 0; i < parts.count(); ++i) parts.Make(i);
  return parts.Finish(Serial);
}

std::string SortExamples(const TreeView& tree, const int64_t* labels,
                         int64_t batch, const std::vector<int64_t>& ignored,
                         Plan* plan) {
  *plan = Plan();
  plan->pinned = tree.pinned;
  std::vector<KeyAndIndex> ranked;  // rank and example
  ranked.reserve(batch);
  for (int64_t i = 0; i < batch; ++i) {
    if (i + kAhead < batch && labels[i + kAhead] >= 0 &&
        labels[i + kAhead] < tree.num_classes) {
      __builtin_prefetch(tree.class_ranks + labels[i + kAhead]);
    }
    const int64_t label = labels[i];
    if (std::find(ignored.begin(), ignored.end(), label) != ignored.end()) {
      continue;
    }
    if (label < 0 || label >= tree.num_classes) {
      return OutOfRange("labels", i, label, 0, tree.num_classes) +
             ", the tree's classes; a label that stands for no class is "
             "passed as ignore_class, and Tree.from_data(num_classes=) has "
             "room for classes without a label";
    }
    ranked.push_back({tree.class_ranks[label], i});
  }
  SortByKey(&ranked);
  plan->order.reserve(ranked.size());
  for (const KeyAndIndex& one : ranked) plan->order.push_back(one.index);
  const int64_t blocks = plan->num_examples() / kBlockExamples;
  plan->span = kBlockExamples *
               std::clamp<int64_t>(blocks / kManySpans, 1, kMaxSpanBlocks);
  return "";
}

std::string FinishPlan(Plan* plan) {
  const std::string error = SortByGroup(plan);
  if (!error.empty()) return error;
  int64_t num_targets = 0;
  for (Node& node : plan->nodes) {
    plan->num_binary += node.fanout == 2;
    if (node.fanout > kMaxSmallFanout) {
      ++plan->num_large;
      node.target_offset = num_targets;
      num_targets += node.population();
    }
    node.pass_offset = plan->num_passes;
    node.prob_offset = plan->num_probs;
    plan->num_passes += node.population();
    plan->num_probs += node.population() * node.fanout;
  }
  if (plan->num_large == 0) return "";
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
