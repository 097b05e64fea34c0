// The pieces of work that the kernels take, how many there can be, and the list
// of touched rows: see plan.h.

#include "cc/cuda/device/launcher.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm {
namespace gpu {
namespace {

TF_HSM_KERNEL(kBlockThreads)
FillItems(DevicePlan plan, ItemKind kind, int64_t most, int64_t most_slots,
          Item* items) {
  const int64_t i = GlobalIndex();
  int64_t NodeWork::* const member =
      kind == ItemKind::kForward    ? &NodeWork::forward_items
      : kind == ItemKind::kBackward ? &NodeWork::backward_items
                                    : &NodeWork::small_items;
  if (i >= most || i >= plan.counts->work.*member) return;
  const int64_t n = FindSum(plan.work, member, plan.counts->num_nodes, i);
  const DeviceNode node = plan.nodes[n];
  const Cuts cuts = plan.counts->cuts;
  const int64_t pieces = cuts.ExamplePieces(node);
  const int64_t before = n == 0 ? 0 : plan.work[n - 1].*member;
  const int64_t own = i - before;
  int64_t row = 0, rows = node.fanout, example = 0;
  int64_t examples = node.population();
  Item item;
  item.slot = -1;
  if (kind == ItemKind::kForward) {
    const int64_t row_pieces = cuts.RowPieces(node);
    rows = cuts.Rows(node);
    row = own % row_pieces * rows;
    examples = node.tile_examples();
    example = own / row_pieces * examples;
    item.slot = (n == 0 ? 0 : plan.work[n - 1].forward_slots) +
                own % row_pieces * node.population() + example;
  } else {
    if (kind == ItemKind::kBackward) {
      rows = node.hot ? kHotTile : kTileRows;
      row = own / pieces * rows;
    }
    examples = cuts.Examples(node);
    example = own % pieces * examples;
    if (cuts.Merges(node)) {
      item.slot = (n == 0 ? 0 : plan.work[n - 1].merge_slots) +
                  own % pieces * node.fanout + row;
    }
  }
  item.node = static_cast<int32_t>(n);
  item.row = row;
  item.num_rows = static_cast<int32_t>(Smaller(rows, node.fanout - row));
  item.example = static_cast<int32_t>(example);
  item.num_examples =
      static_cast<int32_t>(Smaller(examples, node.population() - example));
  // Only a tree whose arrays contradict each other asks for more.
  const int64_t slots =
      kind == ItemKind::kForward ? item.num_examples : item.num_rows;
  if (item.slot >= 0 && item.slot + slots > most_slots) item.num_examples = 0;
  items[i] = item;
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

Bounds BoundsOf(const TreeView& tree, const TreeShape& shape, int64_t size,
                int64_t logits) {
  Bounds bounds;
  bounds.passes = size * shape.depth;
  bounds.nodes = Smaller(bounds.passes, tree.num_groups);
  bounds.rows = Smaller(tree.num_rows, bounds.passes * shape.max_fanout);
  const int64_t large_passes = size * shape.large_depth;
  const int64_t most_tiles = CeilDivide(shape.max_fanout, kTileRows);
  const int64_t most_pieces = CeilDivide(most_tiles, kMinRowTiles);
  bounds.forward_items =
      Smaller(large_passes * most_pieces, large_passes + kTargetItems);
  bounds.forward_slots = Smaller(large_passes * most_pieces,
                                 large_passes + kTargetItems * kTileExamples);
  // Each large node has more than kMaxSmallFanout rows and an open tile.
  bounds.backward_items =
      large_passes == 0
          ? 0
          : bounds.rows / kTileRows + 2 * kTargetItems +
                Smaller(large_passes, bounds.rows / kMaxSmallFanout + 1);
  bounds.small_items =
      shape.small_fanout == 0
          ? 0
          : Smaller(bounds.passes, bounds.nodes + kTargetItems);
  // A node in p > 1 pieces has p <= 2 examples / (examples of a piece).
  const int64_t large_slots =
      large_passes <= kMinExampleTiles * kTileExamples
          ? 0
          : Smaller(
                2 * kTargetItems * kTileRows,
                2 * CeilDivide(large_passes, kMinExampleTiles * kTileExamples) *
                    most_tiles * kTileRows);
  const int64_t small_slots =
      shape.small_fanout *
      Smaller(2 * kTargetItems,
              CeilDivide(2 * bounds.passes, kMinSmallExamples));
  bounds.merge_slots = large_slots + small_slots;
  bounds.logits =
      large_passes == 0 ? 0 : Smaller(logits, large_passes * shape.max_fanout);
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
