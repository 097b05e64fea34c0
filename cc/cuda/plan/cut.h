// The second half of a plan: which nodes are hot, whose logits are kept, and
// how nodes are cut. As paths.h.

#ifndef TF_HSM_CC_CUDA_PLAN_CUT_H_
#define TF_HSM_CC_CUDA_PLAN_CUT_H_

#include <cstdint>

#include "cc/cuda/plan/paths.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

// Puts node n in its place. A node is hot here if it would be with room.
TF_HSM_DEVICE void SortNode(const PlanTask& task, int64_t n) {
  const DevicePlan& plan = task.plan;
  NodeTotals* const totals = task.scratch.totals + n;
  *totals = {};
  const int64_t count =
      Smaller(task.scratch.opened_sums[plan.size - 1], task.bounds.nodes);
  if (n == 0) plan.counts->num_nodes = count;
  if (n >= count) return;
  DeviceNode node = task.scratch.unsorted[task.scratch.sorted_values[n]];
  node.hot = task.bounds.hot_items > 0 && node.large &&
             node.population() > kMaxStreamExamples;
  plan.nodes[n] = node;
  totals->rows = node.num_weight_rows();
  if (!node.large) {
    totals->small_passes = node.population();
    return;
  }
  const bool hot = node.hot;
  (hot ? totals->hot_tiles : totals->tiles) =
      CeilDivide(node.fanout, TileRows(hot)) *
      CeilDivide(node.population(), TileExamples(hot));
  (hot ? totals->hot_logits : totals->logits) =
      node.logits_stride() * node.population();
}

// The first examples of node n, which would be hot with room, that have it.
TF_HSM_DEVICE int64_t HotExamples(const PlanTask& task, int64_t n) {
  const DeviceNode& node = task.plan.nodes[n];
  const int64_t own = node.logits_stride() * node.population();
  const int64_t room =
      task.bounds.logits - (task.plan.totals[n].hot_logits - own);
  if (room >= own) return node.population();
  return room < 0 ? 0 : room / node.logits_stride() / kHotTile * kHotTile;
}

// How nodes are cut follows from the totals of all of them.
TF_HSM_DEVICE Cuts CutsOf(const PlanTask& task) {
  const DevicePlan& plan = task.plan;
  const int64_t count = plan.counts->num_nodes;
  const NodeTotals all = plan.totals[task.bounds.nodes - 1];
  int64_t hot_tiles = all.hot_tiles, tiles = all.tiles;
  if (all.hot_logits > task.bounds.logits) {
    // The node where the room ends, from which on tiles are not hot.
    const int64_t n = FindSum(plan.totals, &NodeTotals::hot_logits, count,
                              task.bounds.logits);
    hot_tiles = (n == 0 ? 0 : plan.totals[n - 1].hot_tiles) +
                CeilDivide(plan.nodes[n].fanout, kHotTile) *
                    (HotExamples(task, n) / kHotTile);
    tiles += (all.hot_tiles - hot_tiles) * kTilesPerHotTile;
  }
  Cuts cuts;
  const int64_t share = CeilDivide(tiles, kTargetItems);
  cuts.row_tiles = Larger(kMinRowTiles, share);
  cuts.example_tiles = Larger(kMinExampleTiles, share);
  const int64_t hot_share =
      CeilDivide(hot_tiles, Larger<int64_t>(1, task.bounds.hot_items));
  cuts.hot_row_tiles = Larger<int64_t>(1, hot_share);
  cuts.hot_example_tiles = Larger(kMinHotExampleTiles, hot_share);
  cuts.forward_examples = task.bounds.forward_examples;
  cuts.small_examples =
      Larger(kMinSmallExamples, CeilDivide(all.small_passes, kTargetItems));
  return cuts;
}

// Gives a large node the room for its logits, if there is any.
TF_HSM_DEVICE void KeepLogits(const PlanTask& task, int64_t n) {
  DeviceNode& node = task.plan.nodes[n];
  const NodeTotals& totals = task.plan.totals[n];
  const int64_t own = node.logits_stride() * node.population();
  if (node.hot) {
    node.logits_offset = totals.hot_logits - own;
    node.kept_examples = static_cast<int32_t>(HotExamples(task, n));
    node.hot = node.kept_examples > 0;
    return;
  }
  const int64_t end =
      task.plan.totals[task.bounds.nodes - 1].hot_logits + totals.logits;
  if (end > task.bounds.logits) return;
  node.logits_offset = end - own;
  node.kept_examples = static_cast<int32_t>(node.population());
}

TF_HSM_DEVICE void CutNode(const PlanTask& task, int64_t n) {
  const DevicePlan& plan = task.plan;
  const Cuts cuts = CutsOf(task);
  if (n == 0) plan.counts->cuts = cuts;
  NodeWork* const work = task.scratch.work + n;
  *work = {};
  if (n >= plan.counts->num_nodes) return;
  if (plan.nodes[n].large) KeepLogits(task, n);
  *work = cuts.WorkOf(plan.nodes[n]);
}

// Labels cannot ask for more than the bounds; a tree whose arrays contradict
// each other can.
TF_HSM_DEVICE void KeepCounts(const PlanTask& task) {
  const Bounds& bounds = task.bounds;
  Counts* const counts = task.plan.counts;
  NodeWork work = task.plan.work[bounds.nodes - 1];
  work.forward_items = Smaller(work.forward_items, bounds.forward_items);
  work.hot_backward_items =
      Smaller(work.hot_backward_items, bounds.backward_items);
  work.backward_items = Smaller(
      work.backward_items, bounds.backward_items - work.hot_backward_items);
  work.small_items = Smaller(work.small_items, bounds.small_items);
  counts->work = work;
  counts->num_rows =
      Smaller(task.plan.totals[bounds.nodes - 1].rows, bounds.rows);
}

// Item i of a kind.
TF_HSM_DEVICE Item ItemOf(const DevicePlan& plan, ItemKind kind, int64_t i) {
  int64_t NodeWork::* const member =
      kind == ItemKind::kForward       ? &NodeWork::forward_items
      : kind == ItemKind::kBackward    ? &NodeWork::backward_items
      : kind == ItemKind::kHotBackward ? &NodeWork::hot_backward_items
                                       : &NodeWork::small_items;
  const Cuts cuts = plan.counts->cuts;
  const int64_t n = FindSum(plan.work, member, plan.counts->num_nodes, i);
  const DeviceNode node = plan.nodes[n];
  const NodeWork before = n == 0 ? NodeWork{} : plan.work[n - 1];
  int64_t own = i - before.*member;
  bool hot = kind == ItemKind::kHotBackward;
  if (kind == ItemKind::kForward) {  // the hot part comes first
    const int64_t of_hot = cuts.ForwardItems(node, true);
    hot = own < of_hot;
    if (!hot) own -= of_hot;
  }
  const int64_t all_rows = node.num_weight_rows();
  int64_t row = 0, rows = all_rows, example, examples;
  Item item;
  item.slot = -1;
  if (kind == ItemKind::kForward) {
    const int64_t pieces = cuts.RowPieces(node, hot);
    rows = cuts.Rows(node, hot);
    row = own % pieces * rows;
    examples = cuts.ForwardExamples(hot);
    example = own / pieces * examples;
    item.slot = before.forward_slots +
                (hot ? 0 : cuts.ForwardSlots(node, true)) +
                own % pieces * node.Examples(hot) + example;
  } else {
    const int64_t pieces = cuts.ExamplePieces(node, hot);
    if (kind != ItemKind::kSmall) {
      rows = TileRows(hot);
      row = own / pieces * rows;
    }
    examples = cuts.Examples(node, hot);
    example = own % pieces * examples;
    if (cuts.Merges(node)) {
      const int64_t piece =
          own % pieces + (hot ? 0 : cuts.ExamplePieces(node, true));
      item.slot = before.merge_slots + piece * all_rows + row;
    }
  }
  item.node = static_cast<int32_t>(n);
  item.row = row;
  item.num_rows = static_cast<int32_t>(Smaller(rows, all_rows - row));
  item.num_examples =
      static_cast<int32_t>(Smaller(examples, node.Examples(hot) - example));
  item.example =
      static_cast<int32_t>(example + (hot ? 0 : node.Examples(true)));
  return item;
}

// Lists item i of `items`; only a tree whose arrays contradict each other asks
// for more than `most_slots`.
TF_HSM_DEVICE void ListItem(const DevicePlan& plan, ItemKind kind, int64_t i,
                            int64_t most_slots, Item* items) {
  Item item = ItemOf(plan, kind, i);
  const int64_t slots =
      kind == ItemKind::kForward ? item.num_examples : item.num_rows;
  if (item.slot >= 0 && item.slot + slots > most_slots) item.num_examples = 0;
  items[i] = item;
}

// A block that makes a plan by itself.
constexpr int kPlanThreads = 512;
constexpr int kPlanKeys = 5;  // of a thread

// Whether one block makes the plan of `size` examples and at most `nodes`.
inline bool FitsOneBlock(const TreeView& tree, int64_t size, int64_t nodes) {
  constexpr int64_t kMost = kPlanThreads * kPlanKeys;
  constexpr int64_t kMostKeys = int64_t{1} << 31;
  return size <= kMost && nodes <= kMost && tree.num_classes < kMostKeys &&
         tree.num_groups < kMostKeys;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_CUT_H_
