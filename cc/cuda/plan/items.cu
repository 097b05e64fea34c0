// The pieces of work that the kernels take, how many there can be, and the list
// of touched rows: see plan.h.

#include "cc/cuda/device/launcher.h"
#include "cc/cuda/plan/cut.h"
#include "cc/cuda/plan/one_block.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm {
namespace gpu {
namespace {

TF_HSM_KERNEL(kBlockThreads)
FillItems(DevicePlan plan, ItemKind kind, int64_t count, int64_t most_slots,
          Item* items) {
  const NodeWork& work = plan.counts->work;
  const int64_t listed = kind == ItemKind::kForward    ? work.forward_items
                         : kind == ItemKind::kBackward ? work.backward_items
                                                       : work.small_items;
  if (GlobalIndex() >= Smaller(count, listed)) return;
  ListItem(plan, kind, GlobalIndex(), most_slots, items);
}

TF_HSM_KERNEL(kBlockThreads)
FillRows(DevicePlan plan, int64_t* rows, int64_t capacity) {
  const int64_t i = GlobalIndex();
  if (i >= capacity) return;
  rows[i] = -1;
  if (i >= plan.counts->num_rows) return;
  const int64_t n =
      FindSum(plan.totals, &NodeTotals::rows, plan.counts->num_nodes, i);
  const int64_t before = n == 0 ? 0 : plan.totals[n - 1].rows;
  rows[i] = plan.nodes[n].first_row + i - before;
}

}  // namespace

static_assert(kMaxHotItems * kHotTile <= kTargetItems * kTileRows &&
                  kHotTile == kMinRowTiles * kTileRows &&
                  kMinHotExampleTiles * kHotTile ==
                      kMinExampleTiles * kTileExamples &&
                  kMaxStreamExamples < kMinExampleTiles * kTileExamples,
              "BoundsOf counts slots of hot parts as those of others");

Bounds BoundsOf(const TreeView& tree, const TreeShape& shape, int64_t size,
                int64_t logits, int64_t hot_items) {
  Bounds bounds;
  bounds.passes = size * shape.depth;
  bounds.nodes = Smaller(bounds.passes, tree.num_groups);
  bounds.rows = Smaller(tree.num_rows, bounds.passes * shape.max_fanout);
  bounds.one_block = FitsOneBlock(tree, size, bounds.nodes);
  const int64_t large_passes = size * shape.large_depth;
  const int64_t all_logits = large_passes * shape.max_fanout;
  const bool all_kept = all_logits <= logits;
  bounds.logits = Smaller(logits, all_logits);
  const bool hot = bounds.logits > 0 && hot_items > 0;
  bounds.hot_items = hot ? hot_items : 0;
  const int64_t most_tiles = CeilDivide(shape.max_fanout, kTileRows);
  const int64_t most_pieces = CeilDivide(most_tiles, kMinRowTiles);
  bounds.forward_items =
      Smaller(large_passes * most_pieces,
              large_passes + kTargetItems + bounds.hot_items);
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
        shape.small_fanout *
        Smaller(2 * kTargetItems,
                CeilDivide(2 * bounds.passes, kMinSmallExamples));
  }
  return bounds;
}

void ListItems(ItemKind kind, const Bounds& bounds, const DevicePlan& plan,
               Item* items, void* stream) {
  const int64_t most = kind == ItemKind::kForward    ? bounds.forward_items
                       : kind == ItemKind::kBackward ? bounds.backward_items
                                                     : bounds.small_items;
  const int64_t most_slots =
      kind == ItemKind::kForward ? bounds.forward_slots : bounds.merge_slots;
  LaunchEach(FillItems, most, stream, plan, kind, most, most_slots, items);
}

void ListRows(const DevicePlan& plan, int64_t* rows, int64_t capacity,
              void* stream) {
  LaunchEach(FillRows, capacity, stream, plan, rows, capacity);
}

}  // namespace gpu
}  // namespace tf_hsm
