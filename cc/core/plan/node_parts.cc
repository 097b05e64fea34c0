#include "cc/core/plan/node_parts.h"

#include <algorithm>

#include "cc/core/plan/prefetch_paths.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// More parts are of no use: each begins with a path from the root.
constexpr int64_t kMaxParts = 32;

}  // namespace

// Grows the nodes of a part, one leaf after another in depth-first order.
class NodeParts::Builder {
 public:
  Builder(const TreeView& tree, Plan* plan, Part* part)
      : tree_(tree), plan_(*plan), nodes_(part->nodes), open_(part->open) {}

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
      while (!open_.empty() && nodes_[open_.back()].group > span.group) {
        Close(at);
      }
      const int64_t local = at_row - span.first_row;
      if (!open_.empty() && nodes_[open_.back()].group == span.group) {
        joined = open_.back();
        leaf_local_ = local;
        break;
      }
      climb_.push_back({span, local});
      at_row = tree_.group_parents[span.group];
      if (at_row < 0) {
        while (!open_.empty()) Close(at);  // the tree before
        break;
      }
    }
    while (!climb_.empty()) {
      const Step& step = climb_.back();
      const int64_t parent = joined;
      joined = static_cast<int64_t>(nodes_.size());
      Node& node = nodes_.emplace_back();
      node.group = step.span.group;
      node.first_row = step.span.first_row;
      node.fanout = step.span.fanout;
      node.begin = at;
      if (parent >= 0) {
        node.parent = parent;
        node.parent_local = leaf_local_;
        node.depth = nodes_[parent].depth + 1;
      }
      leaf_local_ = step.local;
      open_.push_back(joined);
      climb_.pop_back();
    }
    plan_.leaf_node[at] = joined;
    plan_.leaf_local[at] = leaf_local_;
    return "";
  }

 private:
  struct Step {
    GroupSpan span;
    int64_t local;  // the row on the path
  };

  void Close(int64_t at) {
    Node& node = nodes_[open_.back()];
    node.end = at;
    node.after = static_cast<int64_t>(nodes_.size());
    open_.pop_back();
  }

  const TreeView& tree_;
  Plan& plan_;
  std::vector<Node>& nodes_;
  std::vector<int64_t>& open_;
  std::vector<Step> climb_;  // to new nodes, from the leaf upwards
  int64_t leaf_local_ = 0;
};

NodeParts::NodeParts(const TreeView& tree, const int64_t* labels, Plan* plan,
                     int64_t part_examples)
    : tree_(tree), labels_(labels), plan_(*plan) {
  const int64_t examples = plan->num_examples();
  plan->leaf_node.resize(examples);
  plan->leaf_local.resize(examples);
  const int64_t count =
      std::clamp<int64_t>(examples / part_examples, 1, kMaxParts);
  parts_.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    parts_[i].begin = examples * i / count;
    parts_[i].end = examples * (i + 1) / count;
  }
}

void NodeParts::Make(int64_t i) {
  Part& part = parts_[i];
  auto label = [&](int64_t at) { return labels_[plan_.order[at]]; };
  // Without repeats.
  std::vector<int64_t> leaves;
  leaves.reserve(part.end - part.begin);
  for (int64_t at = part.begin; at < part.end; ++at) {
    if (at + kAhead < part.end) {
      __builtin_prefetch(tree_.class_rows + label(at + kAhead));
    }
    if (at > part.begin && label(at) == label(at - 1)) continue;
    leaves.push_back(tree_.class_rows[label(at)]);
  }
  const int64_t num_leaves = static_cast<int64_t>(leaves.size());
  part.nodes.reserve(std::min(2 * (part.end - part.begin), tree_.num_groups));
  Builder builder(tree_, &plan_, &part);
  int64_t next = 0;  // of the leaves
  for (int64_t at = part.begin; at < part.end; ++at) {
    if (at > part.begin && label(at) == label(at - 1)) {
      plan_.leaf_node[at] = plan_.leaf_node[at - 1];
      plan_.leaf_local[at] = plan_.leaf_local[at - 1];
      continue;
    }
    if (next % kPrefetchLeaves == 0) {
      PrefetchPaths(tree_, &leaves[next],
                    std::min(kPrefetchLeaves, num_leaves - next));
    }
    const int64_t row = leaves[next++];
    part.error =
        row < 0 || row >= tree_.num_rows
            ? OutOfRange("class_rows", label(at), row, 0, tree_.num_rows)
            : builder.Add(at, row);
    if (!part.error.empty()) return;
  }
}

void NodeParts::Meet(Part* part, int64_t size, std::vector<int64_t>* open,
                     std::vector<int64_t>* open_groups) {
  const int64_t most = std::min(open->size(), part->nodes.size());
  int64_t shared = 0;
  for (; shared < most; ++shared) {
    const Node& node = part->nodes[shared];
    // The part's first path.
    if (node.begin != part->begin || node.parent != shared - 1) break;
    if (node.group != (*open_groups)[shared]) break;
  }
  part->shared.assign(open->begin(), open->begin() + shared);
  part->offset = size - shared;
  for (int64_t i = shared; i < static_cast<int64_t>(open->size()); ++i) {
    ends_.push_back({(*open)[i], part->begin, size});
  }
  for (int64_t i = 0; i < shared; ++i) {
    const Node& node = part->nodes[i];
    if (i < static_cast<int64_t>(part->open.size()) && part->open[i] == i) {
      continue;
    }
    ends_.push_back({(*open)[i], node.end, part->InPlan(node.after)});
  }
  open->clear();
  open_groups->clear();
  for (int64_t i : part->open) {
    open->push_back(part->InPlan(i));
    open_groups->push_back(part->nodes[i].group);
  }
}

void NodeParts::Move(Part* part) {
  const int64_t count = static_cast<int64_t>(part->nodes.size());
  for (int64_t i = part->num_shared(); i < count; ++i) {
    Node& node = plan_.nodes[i + part->offset];
    node = part->nodes[i];
    node.parent = part->InPlan(node.parent);
    node.after = part->InPlan(node.after);
  }
  for (int64_t at = part->begin; at < part->end; ++at) {
    plan_.leaf_node[at] = part->InPlan(plan_.leaf_node[at]);
  }
  part->nodes = std::vector<Node>();
}

std::string NodeParts::Join(const Parallel& parallel) {
  std::vector<int64_t> open, open_groups;
  int64_t size = 0;
  for (Part& part : parts_) {
    if (!part.error.empty()) return part.error;
    Meet(&part, size, &open, &open_groups);
    size = part.offset + static_cast<int64_t>(part.nodes.size());
  }
  for (int64_t i : open) ends_.push_back({i, plan_.num_examples(), size});
  if (count() == 1) {
    plan_.nodes.swap(parts_[0].nodes);
  } else {
    plan_.nodes.resize(size);
    parallel(count(), [&](int64_t i) { Move(&parts_[i]); });
  }
  for (const End& end : ends_) {
    plan_.nodes[end.node].end = end.at;
    plan_.nodes[end.node].after = end.after;
  }
  return "";
}

std::string NodeParts::Finish(const Parallel& parallel) {
  const std::string error = Join(parallel);
  return error.empty() ? FinishPlan(&plan_) : error;
}

}  // namespace tf_hsm
