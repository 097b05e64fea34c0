// The pieces of work that the kernels take, how many there can be, and the list
// of touched rows: see plan.h.

#include "cc/cuda/device/launcher.h"
#include "cc/cuda/plan/cut.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {
namespace {

TF_HSM_KERNEL(kBlockThreads)
FillForwardItems(DevicePlan plan, int64_t most_slots, Item* items) {
  if (GlobalIndex() >= plan.counts->work.forward_items) return;
  ListItem(plan, ItemKind::kForward, GlobalIndex(), most_slots, items);
}

// The row of the parameters at each place of the list, -1 past the touched
// ones.
TF_HSM_DEVICE int64_t TouchedRow(const DevicePlan& plan, int64_t i) {
  if (i >= plan.counts->num_rows) return -1;
  const int64_t n =
      FindSum(plan.totals, &NodeTotals::rows, plan.counts->num_nodes, i);
  return plan.nodes[n].first_weight_row() + i -
         (n == 0 ? 0 : plan.totals[n - 1].rows);
}

// Three lists at once: launches count where a step is small.
TF_HSM_KERNEL(kBlockThreads)
FillBackwardLists(DevicePlan plan, BackwardLists lists, int64_t most_slots) {
  const int64_t i = GlobalIndex();
  if (i < lists.capacity) {
    lists.rows[i] = plan.size == 0 ? -1 : TouchedRow(plan, i);
  }
  if (plan.size == 0) return;
  const NodeWork& work = plan.counts->work;
  const int64_t hot = work.hot_backward_items;
  if (i < hot) {
    ListItem(plan, ItemKind::kHotBackward, i, most_slots, lists.items);
  } else if (i < hot + work.backward_items) {
    ListItem(plan, ItemKind::kBackward, i - hot, most_slots, lists.items + hot);
  }
  if (i < work.small_items) {
    ListItem(plan, ItemKind::kSmall, i, most_slots, lists.small_items);
  }
}

}  // namespace

static_assert(kMaxHotItems * kHotTile <= kTargetItems * kTileRows &&
                  kHotTile == kMinRowTiles * kTileRows &&
                  kMinHotExampleTiles * kHotTile ==
                      kMinExampleTiles * kTileExamples &&
                  kMaxStreamExamples < kMinExampleTiles * kTileExamples,
              "BoundsOf counts slots of hot parts as those of others");

Bounds BoundsOf(const TreeView& tree, const TreeShape& shape, int64_t size,
                int64_t logits, int64_t hot_items, int64_t forward_examples) {
  Bounds bounds;
  bounds.forward_examples = forward_examples;
  bounds.passes = size * shape.depth;
  bounds.nodes = Smaller(bounds.passes, tree.num_groups);
  bounds.rows = Smaller(tree.num_weight_rows(),
                        bounds.passes * tree.weight_rows_of(shape.max_fanout));
  bounds.one_block = FitsOneBlock(tree, size, bounds.nodes);
  const int64_t large_passes = size * shape.large_depth;
  const int64_t all_logits = large_passes * LogitsStride(shape.max_fanout);
  const bool all_kept = all_logits <= logits;
  bounds.logits = Smaller(logits, all_logits);
  const bool hot = bounds.logits > 0 && hot_items > 0;
  bounds.hot_items = hot ? hot_items : 0;
  const int64_t most_tiles = CeilDivide(shape.max_fanout, kTileRows);
  const int64_t most_pieces = CeilDivide(most_tiles, kMinRowTiles);
  bounds.forward_items =
      Smaller(large_passes * most_pieces,
              large_passes + kTargetItems * (kTileExamples / forward_examples) +
                  bounds.hot_items);
  bounds.forward_slots = Smaller(large_passes * most_pieces,
                                 large_passes + kTargetItems * kTileExamples +
                                     bounds.hot_items * kHotTile);
  // Each large node has more than kMaxSmallFanout rows and an open tile; one
  // has two parts.
  bounds.backward_items =
      large_passes == 0
          ? 0
          : bounds.rows / kTileRows + 2 * kTargetItems +
                (hot ? CeilDivide(shape.max_fanout, kHotTile) : 0) +
                Smaller(large_passes, bounds.rows / kMaxSmallFanout + 1);
  bounds.small_items =
      shape.small_fanout == 0
          ? 0
          : Smaller(bounds.passes, bounds.nodes + kTargetItems);
  // A part in p > 1 pieces has p <= 2 examples / (examples of a piece). Where
  // all logits are kept, a node with as many examples as a piece is hot.
  const int64_t piece = kMinExampleTiles * kTileExamples;
  const int64_t part_slots =
      Smaller(2 * kTargetItems * kTileRows,
              2 * CeilDivide(large_passes, piece) * most_tiles * kTileRows);
  if (large_passes > 0 && size > piece) {
    bounds.merge_slots +=
        ((hot ? 1 : 0) + (hot && all_kept ? 0 : 1)) * part_slots;
  }
  // The node that has two parts.
  if (hot && !all_kept) bounds.merge_slots += 2 * shape.max_fanout;
  if (size > kMinSmallExamples) {
    bounds.merge_slots +=
        tree.weight_rows_of(shape.small_fanout) *
        Smaller(2 * kTargetItems,
                CeilDivide(2 * bounds.passes, kMinSmallExamples));
  }
  return bounds;
}

void ListForward(const Bounds& bounds, const DevicePlan& plan, Item* items,
                 void* stream) {
  LaunchEach(FillForwardItems, bounds.forward_items, stream, plan,
             bounds.forward_slots, items);
}

void ListBackward(const Bounds& bounds, const DevicePlan& plan,
                  const BackwardLists& lists, void* stream) {
  const int64_t items = Larger(bounds.backward_items, bounds.small_items);
  LaunchEach(FillBackwardLists, Larger(items, lists.capacity), stream, plan,
             lists, bounds.merge_slots);
}

}  // namespace tf_hsm::gpu
