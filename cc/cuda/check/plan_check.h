// Checks the plan by itself: that its items cover every logit once, that it
// stays within its bounds, that one block makes the same plan as many, and what
// is hot where the room for logits ends.

#ifndef TF_HSM_CC_CUDA_CHECK_PLAN_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_PLAN_CHECK_H_

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/cuda/check/plan_facts.h"

namespace tf_hsm::gpu {

// A plan without a state around it, in host memory.
class MadePlan {
 public:
  MadePlan(const Batch<float>& batch, const Bounds& bounds) {
    const int64_t size = batch.size, most = Larger(size, bounds.nodes);
    const DeviceArray<int32_t> d_order(size), d_depths(size);
    const DeviceArray<int64_t> d_path_rows(bounds.passes), d_rows(bounds.rows);
    const DeviceArray<DeviceNode> d_nodes(bounds.nodes), unsorted(bounds.nodes);
    const DeviceArray<NodeTotals> d_totals(bounds.nodes), totals(bounds.nodes);
    const DeviceArray<NodeWork> d_work(bounds.nodes), one_work(bounds.nodes);
    const DeviceArray<Counts> d_counts(1);
    const DeviceArray<uint64_t> keys(most), sorted_keys(most);
    const DeviceArray<int32_t> values(most), sorted_values(most), depth(size);
    const DeviceArray<int64_t> opened(size), opened_sums(size);
    const DeviceBlock sort(SortBytes(batch.tree, size, bounds));
    const DeviceArray<float> d_losses(size);
    const DeviceArray<Item> d_forward(bounds.forward_items),
        d_backward(bounds.backward_items), d_small(bounds.small_items);
    const DevicePlan plan = {
        d_order.data(),  d_depths.data(), d_path_rows.data(), d_nodes.data(),
        d_totals.data(), d_work.data(),   d_counts.data(),    size};
    const PlanScratch scratch = {
        keys.data(),        sorted_keys.data(),
        values.data(),      sorted_values.data(),
        depth.data(),       opened.data(),
        opened_sums.data(), unsorted.data(),
        totals.data(),      one_work.data(),
        sort.data(),        static_cast<int64_t>(sort.bytes())};
    void* const stream = CheckStream();
    const int64_t before = num_launches;
    error = MakePlan(batch, bounds, plan, scratch, d_losses.data(),
                     d_forward.data(), stream);
    launches = num_launches - before;
    ListBackward(
        bounds, plan,
        {d_backward.data(), d_small.data(), d_rows.data(), bounds.rows},
        stream);
    order = d_order.Download();
    depths = d_depths.Download();
    path_rows = d_path_rows.Download();
    losses = d_losses.Download();
    rows = d_rows.Download();
    counts = d_counts.Download()[0];
    nodes = d_nodes.Download();
    all = d_totals.Download();
    work = d_work.Download();
    forward = d_forward.Download();
    backward = d_backward.Download();
    small = d_small.Download();
    nodes.resize(counts.num_nodes);
    forward.resize(counts.work.forward_items);
    backward.resize(counts.work.hot_backward_items +
                    counts.work.backward_items);
    small.resize(counts.work.small_items);
  }

  // Compares bits; structures have no padding.
  bool operator==(const MadePlan& o) const {
    return error == o.error && SameBits(nodes, o.nodes) &&
           SameBits(order, o.order) && SameBits(depths, o.depths) &&
           SameBits(path_rows, o.path_rows) && SameBits(losses, o.losses) &&
           SameBits(rows, o.rows) && SameBits(all, o.all) &&
           SameBits(work, o.work) &&
           std::memcmp(&counts, &o.counts, sizeof(counts)) == 0 &&
           SameBits(forward, o.forward) && SameBits(backward, o.backward) &&
           SameBits(small, o.small);
  }

  // What is wrong with the items of a tree whose arrays are right.
  std::string Wrong(const Bounds& bounds) const {
    std::string wrong = error;
    if (!work.empty()) {
      const NodeWork& last = work.back();
      if (last.forward_items > bounds.forward_items ||
          last.hot_backward_items + last.backward_items >
              bounds.backward_items ||
          last.small_items > bounds.small_items ||
          last.forward_slots > bounds.forward_slots ||
          last.merge_slots > bounds.merge_slots) {
        wrong += "out of its bounds ";
      }
    }
    wrong += Uncovered(forward, bounds.forward_slots, true, true);
    wrong += Uncovered(backward, bounds.merge_slots, false, true);
    wrong += Uncovered(small, bounds.merge_slots, false, false);
    for (const Item& item : backward) {
      const bool hot = &item - &backward[0] < counts.work.hot_backward_items;
      if (nodes[item.node].IsHot(item) != hot) wrong += "in the wrong list ";
    }
    int64_t end = 0;
    for (const DeviceNode& node : nodes) {
      const int64_t logits = node.kept_examples * node.logits_stride();
      if (logits > 0) end = std::max(end, node.logits_offset + logits);
    }
    if (end > bounds.logits) wrong += "logits without room ";
    return wrong;
  }

  std::string error;
  int64_t launches;
  std::vector<int32_t> order, depths;
  std::vector<int64_t> path_rows, rows;
  std::vector<float> losses;
  Counts counts;
  std::vector<DeviceNode> nodes;
  std::vector<NodeTotals> all;
  std::vector<NodeWork> work;
  std::vector<Item> forward, backward, small;

 private:
  // Each logit of a large (or small) node must be in one item, each slot too.
  std::string Uncovered(const std::vector<Item>& items, int64_t slots,
                        bool by_example, bool large) const {
    std::vector<int64_t> logits(nodes.size());
    std::vector<bool> taken(slots);
    for (const Item& item : items) {
      const DeviceNode& node = nodes[item.node];
      logits[item.node] += int64_t{item.num_rows} * item.num_examples;
      if (item.row < 0 || item.example < 0 || item.num_examples < 1 ||
          item.row + item.num_rows > node.num_weight_rows() ||
          item.example + item.num_examples > node.population()) {
        return "an item outside of its node ";
      }
      const int64_t count = by_example ? item.num_examples : item.num_rows;
      for (int64_t i = 0; item.slot >= 0 && i < count; ++i) {
        if (item.slot + i >= slots || taken[item.slot + i]) {
          return "a slot taken twice ";
        }
        taken[item.slot + i] = true;
      }
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      const DeviceNode& node = nodes[n];
      if (node.large != large) continue;
      if (logits[n] != node.num_weight_rows() * node.population()) {
        return "logits in no item ";
      }
    }
    return "";
  }
};

// Labels of a tree on the device, some of them ignored or wrong if so asked.
struct PlanCase {
  PlanCase(const OwnedTree& the_tree, int64_t size, bool some_wrong,
           std::mt19937* rng)
      : tree(the_tree), labels(Draw(the_tree, size, some_wrong, rng)) {
    batch.tree = tree.view();
    batch.shape = DescribeTree(the_tree.view());
    batch.labels = labels.data();
    batch.size = size;
    batch.width = 1;
    batch.num_ignored = 1;
    batch.ignored[0] = -1;
  }
  PlanCase(const PlanCase&) = delete;

  static std::vector<int64_t> Draw(const OwnedTree& tree, int64_t size,
                                   bool some_wrong, std::mt19937* rng) {
    std::vector<int64_t> labels;
    const int64_t classes = tree.class_rows.size();
    for (int64_t i = 0; i < size; ++i) {
      labels.push_back(static_cast<int64_t>((*rng)() % classes));
      if (some_wrong && i % 13 == 5) labels.back() = -1;
      if (some_wrong && i % 17 == 11) labels.back() = classes;
    }
    return labels;
  }

  Bounds BoundsFor(int64_t logits, int64_t hot_items,
                   int64_t forward_examples = kTileExamples) const {
    return BoundsOf(batch.tree, batch.shape, batch.size, logits, hot_items,
                    forward_examples);
  }

  const DeviceTree tree;
  const DeviceArray<int64_t> labels;
  Batch<float> batch;
};

// One block and many make the same plan, of right trees and of wrong ones.
inline void CheckTwoWays(std::mt19937* rng) {
  const std::pair<const char*, OwnedTree> trees[] = {
      {"flat", FlatTree(203)},
      {"two_level", TwoLevelTree(5000)},
      {"binary", BinaryTree(11)},
      {"skewed", SkewedTree(200, rng)},
      {"chain", ChainTree(40, 3)},
      {"ragged", RandomTree(60, 90, 0.2, rng)},
      {"forest", WideForest(90, rng)},
      {"pinned", Pinned(SkewedTree(200, rng))}};
  for (const auto& [name, tree] : trees) {
    int64_t wrong = 0, one = 0, many = 0;
    std::string error;
    for (const int64_t size : {1, 33, 257, 700, 2560}) {
      for (const bool broken : {false, true}) {
        OwnedTree changed = tree;
        if (broken) {
          for (auto* array : {&changed.offsets, &changed.parents,
                              &changed.class_rows, &changed.row_groups}) {
            (*array)[(*rng)() % array->size()] = (*rng)() % array->size();
          }
        }
        PlanCase c(tree, size, true, rng);
        const DeviceTree other(changed, tree.view());
        c.batch.tree = other.view();
        const int64_t logits = (*rng)() % (size * 200);
        Bounds bounds = c.BoundsFor(logits, size % 2 == 0 ? 0 : 8,
                                    kTileExamples >> ((*rng)() % 2));
        if (!bounds.one_block) error += "too much for one block ";
        const MadePlan in_one(c.batch, bounds);
        bounds.one_block = false;
        const MadePlan in_many(c.batch, bounds);
        wrong += !(in_one == in_many);
        if (!broken) error += in_one.Wrong(bounds);
        one = in_one.launches;
        many = in_many.launches;
      }
    }
    Line(std::string("one block or many, ") + name,
         error.empty() && wrong == 0 && one == 1,
         error + std::to_string(one) + " launch or " + std::to_string(many) +
             ", " + std::to_string(wrong) + " wrong");
  }
  const PlanCase most(trees[0].second, 2560, true, rng),
      more(trees[0].second, 2561, true, rng),
      deep(BinaryTree(12), 400, true, rng);
  Line("one block up to its limit",
       most.BoundsFor(0, 0).one_block && !more.BoundsFor(0, 0).one_block &&
           !deep.BoundsFor(0, 0).one_block,
       "");
}

// A root of 3,163 rows, whose logits pass 1 GiB at 84,867 examples.
inline void CheckRoom(std::mt19937* rng) {
  constexpr int64_t kRoot = 3163, kMost = (int64_t{1} << 30) / 4;
  const OwnedTree tree = GrowTree(kRoot, [](int64_t depth, int64_t, int64_t) {
    return depth == 0 ? 9 : 0;
  });
  auto check = [&](int64_t size, int64_t logits, const std::string& what) {
    const PlanCase c(tree, size, false, rng);
    Bounds bounds = c.BoundsFor(logits, kMaxHotItems);
    const MadePlan plan(c.batch, bounds);
    const PlanFacts facts = FactsOf(plan.nodes, plan.counts);
    const int64_t population = plan.nodes[0].population();
    const int64_t most = bounds.logits / LogitsStride(kRoot);
    const int64_t want =
        most >= population ? population : most / kHotTile * kHotTile;
    const int64_t items = facts.hot_forward_items;
    Line("room for logits, " + what,
         plan.Wrong(bounds).empty() && plan.nodes[0].Examples(true) == want &&
             facts.nodes_in_two_parts == (want > 0 && want < population) &&
             (items > 0) == (want > 0),
         plan.Wrong(bounds) + std::to_string(plan.nodes[0].Examples(true)) +
             " of " + std::to_string(population) + " hot, in " +
             std::to_string(items) + " items; " +
             std::to_string(facts.hot_backward_items) + " of the backward");
    return population;
  };
  for (const int64_t size : {40000, 80000, 85000, 160000}) {
    check(size, kMost, "1 GiB, B=" + std::to_string(size));
  }
  const int64_t population = check(700, kMost, "more than enough");
  check(700, population * kRoot, "just enough");
  check(700, population * kRoot - 1, "one too few");
  check(700, kHotTile * kRoot, "one tile");
  check(700, kHotTile * kRoot - 1, "less than a tile");
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_PLAN_CHECK_H_
