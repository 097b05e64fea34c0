#include "cc/core/plan/label_plan.h"

#include <algorithm>
#include <numeric>

#include "cc/core/base/radix_sort.h"
#include "cc/core/plan/prefetch_paths.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// A row on the path of a label of an example; or, with local -1, none, at the
// root's group.
struct Step {
  int64_t example;
  int64_t local;
};

// What MakeLabelPlan gets.
struct LabelSets {
  const int64_t* labels;
  int64_t batch, count;
  const std::vector<int64_t>& ignored;
};

// The rows on the paths of the labels of one example after the other, each
// once.
class Climber {
 public:
  explicit Climber(const TreeView& tree) : tree_(tree) {}

  // Adds the steps of the examples [begin, end).
  std::string Run(const LabelSets& sets, int64_t begin, int64_t end) {
    std::string error;
    for (int64_t i = begin; i < end && error.empty(); ++i) {
      error = Rank(sets, i);
      if (error.empty()) error = Add(i);
    }
    return error;
  }

  // Appends the steps to what climbers of earlier examples have appended.
  void MoveTo(std::vector<KeyAndIndex>* groups, std::vector<Step>* steps) {
    for (const KeyAndIndex& one : groups_) {
      groups->push_back({one.key, static_cast<int64_t>(steps->size())});
      steps->push_back(steps_[one.index]);
    }
  }

 private:
  // Fills ranked_ with the labels of an example, in the order of their ranks.
  std::string Rank(const LabelSets& sets, int64_t example) {
    ranked_.clear();
    const int64_t all = sets.batch * sets.count;
    const int64_t begin = example * sets.count;
    for (int64_t at = begin; at < begin + sets.count; ++at) {
      const int64_t later = at + kAhead < all ? sets.labels[at + kAhead] : 0;
      if (later >= 0 && later < tree_.num_classes) {
        __builtin_prefetch(tree_.class_ranks + later);
        __builtin_prefetch(tree_.class_rows + later);
      }
      const int64_t label = sets.labels[at];
      if (std::find(sets.ignored.begin(), sets.ignored.end(), label) !=
          sets.ignored.end()) {
        continue;
      }
      if (label < 0 || label >= tree_.num_classes) {
        return OutOfRange("labels", at, label, 0, tree_.num_classes) +
               ", the tree's classes; -1 stands for no label";
      }
      ranked_.push_back({tree_.class_ranks[label], label});
    }
    std::sort(ranked_.begin(), ranked_.end(),
              [](const KeyAndIndex& a, const KeyAndIndex& b) {
                return a.key < b.key;
              });
    return "";
  }

  std::string Add(int64_t example) {
    AddStep(0, {example, -1});
    path_.clear();
    const auto count = static_cast<int64_t>(ranked_.size());
    for (int64_t i = 0; i < count; ++i) {
      if (i % kPrefetchLeaves == 0) Prefetch(i);
      const std::string error = Climb(example, ranked_[i].index);
      if (!error.empty()) return error;
    }
    return "";
  }

  struct PathRow {
    GroupSpan span;
    int64_t row;
  };

  // The paths of ranked labels from `begin` on.
  void Prefetch(int64_t begin) const {
    int64_t leaves[kPrefetchLeaves];
    const int64_t left = static_cast<int64_t>(ranked_.size()) - begin;
    const int64_t count = std::min(kPrefetchLeaves, left);
    for (int64_t i = 0; i < count; ++i) {
      leaves[i] = tree_.class_rows[ranked_[begin + i].index];
    }
    PrefetchPaths(tree_, leaves, count);
  }

  void AddStep(int64_t group, const Step& step) {
    groups_.push_back({group, static_cast<int64_t>(steps_.size())});
    steps_.push_back(step);
  }

  // From the label's leaf up to the first row or group of the path before.
  std::string Climb(int64_t example, int64_t label) {
    int64_t row = tree_.class_rows[label];
    if (row < 0 || row >= tree_.num_rows) {
      return OutOfRange("class_rows", label, row, 0, tree_.num_rows);
    }
    climb_.clear();
    while (row >= 0) {
      const int64_t below =
          climb_.empty() ? tree_.num_groups : climb_.back().span.group;
      GroupSpan span;
      std::string error = GroupOf(tree_, row, below, &span);
      if (!error.empty()) return error;
      while (!path_.empty() && path_.back().span.group > span.group) {
        path_.pop_back();
      }
      const bool joins =
          !path_.empty() && path_.back().span.group == span.group;
      if (joins && path_.back().row == row) break;
      climb_.push_back({span, row});
      if (joins) {
        path_.pop_back();
        break;
      }
      row = tree_.group_parents[span.group];
    }
    for (; !climb_.empty(); climb_.pop_back()) {
      const PathRow& next = climb_.back();
      AddStep(next.span.group, {example, next.row - next.span.first_row});
      path_.push_back(next);
    }
    return "";
  }

  const TreeView& tree_;
  std::vector<KeyAndIndex> groups_;  // of each step
  std::vector<Step> steps_;
  std::vector<KeyAndIndex> ranked_;  // rank and label, of one example
  std::vector<PathRow> path_;   // of the example's last label, from the root
  std::vector<PathRow> climb_;  // its new rows, from the leaf upwards
};

// Adds a node for `group`, whose visits begin at the end of the plan's.
std::string OpenNode(const TreeView& tree, int64_t group, Plan* plan) {
  GroupSpan span;
  std::string error = GroupAt(tree, group, &span);
  if (!error.empty()) return error;
  if (!plan->nodes.empty()) {
    const Node& last = plan->nodes.back();
    if (span.first_row < last.first_row + last.fanout) {
      return At("group_offsets", group, span.first_row) +
             ", but the rows of group " + std::to_string(last.group) +
             " end at " + std::to_string(last.first_row + last.fanout);
    }
  }
  Node& node = plan->nodes.emplace_back();
  node.group = group;
  node.first_row = span.first_row;
  node.fanout = span.fanout;
  node.begin = plan->num_examples();
  return "";
}

// Fills what follows from the nodes' groups and visits.
void FinishNodes(Plan* plan) {
  int64_t most = 0;
  const int64_t count = plan->nodes.size();
  for (int64_t i = 0; i < count; ++i) {
    Node& node = plan->nodes[i];
    node.end = i + 1 < count ? plan->nodes[i + 1].begin : plan->num_examples();
    node.after = i + 1;
    node.row_offset = plan->num_rows;
    node.pass_offset = plan->num_passes;
    node.prob_offset = plan->num_probs;
    plan->num_rows += node.fanout;
    plan->num_passes += node.population();
    plan->num_probs += node.population() * node.fanout;
    most = std::max(most, node.population());
  }
  plan->by_group.resize(count);
  std::iota(plan->by_group.begin(), plan->by_group.end(), 0);
  // No targets; all nodes share those that are stored.
  plan->leaf_local.assign(plan->num_examples(), -1);
  plan->targets.assign(most, -1);
}

// Fills the visits of each example, by a counting sort.
void ListVisits(int64_t batch, LabelPlan* plan) {
  const std::vector<int64_t>& order = plan->plan.order;
  plan->example_starts.assign(batch + 1, 0);
  for (int64_t example : order) ++plan->example_starts[example + 1];
  std::partial_sum(plan->example_starts.begin(), plan->example_starts.end(),
                   plan->example_starts.begin());
  std::vector<int64_t> next(plan->example_starts.begin(),
                            plan->example_starts.end() - 1);
  plan->example_visits.resize(order.size());
  for (size_t visit = 0; visit < order.size(); ++visit) {
    plan->example_visits[next[order[visit]]++] = visit;
  }
}

}  // namespace

std::string MakeLabelPlan(const TreeView& tree, const int64_t* labels,
                          int64_t batch, int64_t count,
                          const std::vector<int64_t>& ignored,
                          const Parallel& parallel, LabelPlan* plan) {
  constexpr int64_t kPartLabels = 1024, kMaxParts = 32;
  *plan = LabelPlan();
  if (tree.num_roots != 1) {
    return "group_parents: a label tree has one root, but there are " +
           std::to_string(tree.num_roots);
  }
  const LabelSets sets = {labels, batch, count, ignored};
  const int64_t parts =
      std::clamp<int64_t>(batch * count / kPartLabels, 1, kMaxParts);
  std::vector<Climber> climbers;
  for (int64_t i = 0; i < parts; ++i) climbers.emplace_back(tree);
  std::vector<std::string> errors(parts);
  parallel(parts, [&](int64_t i) {
    errors[i] =
        climbers[i].Run(sets, batch * i / parts, batch * (i + 1) / parts);
  });
  std::vector<KeyAndIndex> groups;  // of each step
  std::vector<Step> steps;
  for (int64_t i = 0; i < parts; ++i) {
    if (!errors[i].empty()) return errors[i];
    climbers[i].MoveTo(&groups, &steps);
  }
  // Those of a group keep the order of the examples.
  SortByKey(&groups);
  Plan& visits = plan->plan;
  int64_t last_local = -1;  // in the last visit
  for (const KeyAndIndex& one : groups) {
    const Step& step = steps[one.index];
    const bool opens =
        visits.nodes.empty() || visits.nodes.back().group != one.key;
    if (opens) {
      const std::string error = OpenNode(tree, one.key, &visits);
      if (!error.empty()) return error;
    }
    if (opens || visits.order.back() != step.example) {
      visits.order.push_back(step.example);
      plan->positive_starts.push_back(plan->positives.size());
      last_local = -1;
    }
    if (step.local < 0) continue;
    if (step.local <= last_local) {
      return "class_ranks is not the depth-first order of this tree's leaves: "
             "in group " +
             std::to_string(one.key) + ", row " + std::to_string(step.local) +
             " comes after row " + std::to_string(last_local);
    }
    last_local = step.local;
    plan->positives.push_back(step.local);
  }
  plan->positive_starts.push_back(plan->positives.size());
  FinishNodes(&visits);
  ListVisits(batch, plan);
  return "";
}

}  // namespace tf_hsm
