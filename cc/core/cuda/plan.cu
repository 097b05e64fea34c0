// Finds the touched groups of a batch without asking the host.
//
// Sorts the examples by the rank of their leaf, climbs each path once, and
// counts at each example the groups that the one before it did not pass: these
// begin here. Their ends are found by a search that doubles its step, since
// passing a group is an interval. One more sort, of the touched groups, gives
// rows ascending and unique. Costs two radix sorts, two scans and a few reads
// per pass, whatever the number of classes.
//
// A label out of range, or a path on which the tree's arrays contradict each
// other, gives its example the depth 0 and a loss of NaN; an ignored one the
// loss 0. Every value of the tree is checked before it is an index.

#include <cmath>

#include "cc/core/cuda/plan.h"
#include "cc/core/cuda/sort_scan.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kThreads = 256;

TF_HSM_DEVICE int64_t GlobalIndex() {
  return BlockIndex() * NumThreads() + ThreadIndex();
}

// What the labels' kernels read.
struct Labels {
  TreeView tree;
  const void* labels;
  bool wide;
  int64_t size;
  int64_t depth;
  int num_ignored;
  int64_t ignored[kMaxIgnored];

  TF_HSM_DEVICE int64_t At(int64_t example) const {
    return wide ? static_cast<const int64_t*>(labels)[example]
                : static_cast<const int32_t*>(labels)[example];
  }
  TF_HSM_DEVICE bool Ignored(int64_t label) const {
    for (int i = 0; i < num_ignored; ++i) {
      if (ignored[i] == label) return true;
    }
    return false;
  }
};

// Keys: the rank of the leaf; num_classes for those that have no path.
TF_HSM_KERNEL(kThreads)
RankExamples(Labels labels, uint64_t* keys, int32_t* values) {
  const int64_t i = GlobalIndex();
  if (i >= labels.size) return;
  const int64_t label = labels.At(i);
  int64_t rank = labels.tree.num_classes;
  if (!labels.Ignored(label) && label >= 0 && label < rank) {
    const int64_t own = labels.tree.class_ranks[label];
    if (own >= 0 && own < rank) rank = own;
  }
  keys[i] = static_cast<uint64_t>(rank);
  values[i] = static_cast<int32_t>(i);
}

// The group of a row, or -1 if the arrays around it are wrong.
TF_HSM_DEVICE int64_t GroupOfRow(const TreeView& tree, int64_t row) {
  if (row < 0 || row >= tree.num_rows) return -1;
  const int64_t group = tree.row_groups[row];
  if (group < 0 || group >= tree.num_groups) return -1;
  const int64_t first = tree.group_offsets[group];
  const int64_t last = tree.group_offsets[group + 1];
  if (first < 0 || first > row || last <= row || last > tree.num_rows) {
    return -1;
  }
  const int64_t parent = tree.group_parents[group];
  const bool right = group == 0 ? parent == -1 : parent >= 0 && parent < first;
  return right ? group : -1;
}

// The depth of a leaf, 0 if its path is wrong.
TF_HSM_DEVICE int DepthOf(const TreeView& tree, int64_t row, int64_t most) {
  for (int depth = 1; depth <= most; ++depth) {
    const int64_t group = GroupOfRow(tree, row);
    if (group < 0) return 0;
    if (group == 0) return depth;
    row = tree.group_parents[group];
  }
  return 0;
}

template <typename A>
TF_HSM_KERNEL(kThreads)
ClimbPaths(Labels labels, DevicePlan plan, A* loss) {
  const int64_t position = GlobalIndex();
  if (position >= labels.size) return;
  const TreeView& tree = labels.tree;
  const int32_t example = plan.order[position];
  const int64_t label = labels.At(example);
  const bool ignored = labels.Ignored(label);
  int64_t row = -1;
  int depth = 0;
  if (!ignored && label >= 0 && label < tree.num_classes) {
    row = tree.class_rows[label];
    depth = DepthOf(tree, row, labels.depth);
  }
  plan.depths[position] = depth;
  if (depth == 0) loss[example] = ignored ? A(0) : static_cast<A>(NAN);
  for (int64_t level = labels.depth - 1; level >= 0; --level) {
    plan.path_rows[plan.Pass(level, position)] = level < depth ? row : -1;
    if (level < depth) row = tree.group_parents[tree.row_groups[row]];
  }
}

// Whether the example at `position` passes, at `level`, the group with the rows
// [first, last).
TF_HSM_DEVICE bool Passes(const DevicePlan& plan, int64_t level,
                          int64_t position, int64_t first, int64_t last) {
  const int64_t row = plan.path_rows[plan.Pass(level, position)];
  return row >= first && row < last;
}

// The nodes that begin at each example.
TF_HSM_KERNEL(kThreads)
CountOpened(TreeView tree, DevicePlan plan, int64_t* opened) {
  const int64_t position = GlobalIndex();
  if (position >= plan.size) return;
  const int depth = plan.depths[position];
  // The levels that are shared with the example before come first.
  int low = 0, high = position == 0 ? 0 : depth;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int64_t row = plan.path_rows[plan.Pass(middle, position)];
    const int64_t group = tree.row_groups[row];
    if (Passes(plan, middle, position - 1, tree.group_offsets[group],
               tree.group_offsets[group + 1])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  opened[position] = depth - low;
}

// Past the last example from `begin` on that passes the group.
TF_HSM_DEVICE int64_t EndOf(const DevicePlan& plan, int64_t level,
                            int64_t begin, int64_t first, int64_t last) {
  int64_t step = 1;
  while (begin + step < plan.size &&
         Passes(plan, level, begin + step, first, last)) {
    step *= 2;
  }
  int64_t low = begin + step / 2;  // passes
  int64_t high = Smaller(begin + step, plan.size);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (Passes(plan, level, middle, first, last)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return high;
}

TF_HSM_KERNEL(kThreads)
OpenNodes(TreeView tree, DevicePlan plan, const int64_t* opened_sums,
          int64_t most, DeviceNode* unsorted, uint64_t* keys, int32_t* values) {
  const int64_t t = GlobalIndex();
  if (t >= most) return;
  values[t] = static_cast<int32_t>(t);
  keys[t] = static_cast<uint64_t>(tree.num_groups);
  if (t >= opened_sums[plan.size - 1]) return;
  int64_t low = 0, high = plan.size;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (opened_sums[middle] > t) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const int64_t position = low;
  // Counted from the deepest level up.
  const int64_t level = plan.depths[position] - (opened_sums[position] - t);
  const int64_t row = plan.path_rows[plan.Pass(level, position)];
  DeviceNode node;
  node.group = tree.row_groups[row];
  node.first_row = tree.group_offsets[node.group];
  const int64_t last = tree.group_offsets[node.group + 1];
  node.fanout = last - node.first_row;
  node.logits_offset = -1;
  node.level = static_cast<int32_t>(level);
  node.begin = static_cast<int32_t>(position);
  node.end =
      static_cast<int32_t>(EndOf(plan, level, position, node.first_row, last));
  unsorted[t] = node;
  keys[t] = static_cast<uint64_t>(node.group);
}

TF_HSM_KERNEL(kThreads)
SortNodes(DevicePlan plan, const int64_t* opened_sums, int64_t most,
          const DeviceNode* unsorted, const int32_t* sorted_values,
          NodeTotals* totals) {
  const int64_t n = GlobalIndex();
  if (n >= most) return;
  totals[n] = {};
  const int64_t count = Smaller(opened_sums[plan.size - 1], most);
  if (n == 0) plan.counts->num_nodes = count;
  if (n >= count) return;
  const DeviceNode node = unsorted[sorted_values[n]];
  plan.nodes[n] = node;
  totals[n].rows = node.fanout;
  if (node.wide()) {
    totals[n].tiles = node.row_tiles() * node.example_tiles();
    totals[n].logits = node.fanout * node.population();
  } else {
    totals[n].small_passes = node.population();
  }
}

// How nodes are cut follows from the totals of all of them.
TF_HSM_DEVICE Cuts CutsOf(const NodeTotals& all) {
  Cuts cuts;
  const int64_t share = CeilDivide(all.tiles, kTargetItems);
  cuts.row_tiles = Larger(kMinRowTiles, share);
  cuts.example_tiles = Larger(kMinExampleTiles, share);
  cuts.small_examples =
      Larger(kMinSmallExamples, CeilDivide(all.small_passes, kTargetItems));
  return cuts;
}

TF_HSM_KERNEL(kThreads)
CutNodes(DevicePlan plan, int64_t most, int64_t most_logits, NodeWork* work) {
  const int64_t n = GlobalIndex();
  if (n >= most) return;
  const NodeTotals all = plan.totals[most - 1];
  const Cuts cuts = CutsOf(all);
  if (n == 0) {
    plan.counts->cuts = cuts;
    plan.counts->num_rows = all.rows;
  }
  work[n] = {};
  if (n >= plan.counts->num_nodes) return;
  DeviceNode& node = plan.nodes[n];
  if (node.wide()) {
    work[n].forward_items = cuts.RowPieces(node) * node.example_tiles();
    work[n].forward_slots = cuts.RowPieces(node) * node.population();
    work[n].backward_items = node.row_tiles() * cuts.ExamplePieces(node);
    if (plan.totals[n].logits <= most_logits) {
      node.logits_offset =
          plan.totals[n].logits - node.fanout * node.population();
    }
  } else {
    work[n].small_items = cuts.ExamplePieces(node);
  }
  if (cuts.Merges(node)) {
    work[n].merge_slots = node.fanout * cuts.ExamplePieces(node);
    work[n].merge_rows = node.fanout;
  }
}

TF_HSM_KERNEL(kThreads)
KeepCounts(DevicePlan plan, int64_t most) {
  if (GlobalIndex() == 0) plan.counts->work = plan.work[most - 1];
}

TF_HSM_KERNEL(kThreads)
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
    row = own % row_pieces * cuts.row_tiles * kTileRows;
    rows = cuts.row_tiles * kTileRows;
    example = own / row_pieces * kTileExamples;
    examples = kTileExamples;
    item.slot = (n == 0 ? 0 : plan.work[n - 1].forward_slots) +
                own % row_pieces * node.population() + example;
  } else {
    if (kind == ItemKind::kBackward) {
      row = own / pieces * kTileRows;
      rows = kTileRows;
      examples = cuts.example_tiles * kTileExamples;
    } else {
      examples = cuts.small_examples;
    }
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

TF_HSM_KERNEL(kThreads)
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
  const int64_t wide_passes = size * shape.wide_depth;
  const int64_t most_tiles = CeilDivide(shape.max_fanout, kTileRows);
  const int64_t most_pieces = CeilDivide(most_tiles, kMinRowTiles);
  bounds.forward_items =
      Smaller(wide_passes * most_pieces, wide_passes + kTargetItems);
  bounds.forward_slots = Smaller(wide_passes * most_pieces,
                                 wide_passes + kTargetItems * kTileExamples);
  // Each wide node has more than kMaxSmallFanout rows and an open tile.
  bounds.backward_items =
      wide_passes == 0
          ? 0
          : bounds.rows / kTileRows + 2 * kTargetItems +
                Smaller(wide_passes, bounds.rows / kMaxSmallFanout + 1);
  bounds.small_items =
      shape.small_fanout == 0
          ? 0
          : Smaller(bounds.passes, bounds.nodes + kTargetItems);
  // Of a node in p > 1 pieces, p <= 2 examples / (examples of a piece).
  const int64_t wide_slots =
      wide_passes <= kMinExampleTiles * kTileExamples
          ? 0
          : Smaller(
                2 * kTargetItems * kTileRows,
                2 * CeilDivide(wide_passes, kMinExampleTiles * kTileExamples) *
                    most_tiles * kTileRows);
  const int64_t small_slots =
      shape.small_fanout *
      Smaller(2 * kTargetItems,
              CeilDivide(2 * bounds.passes, kMinSmallExamples));
  bounds.merge_slots = wide_slots + small_slots;
  bounds.logits =
      wide_passes == 0 ? 0 : Smaller(logits, wide_passes * shape.max_fanout);
  return bounds;
}

int64_t SortBytes(const TreeView& tree, int64_t size, int64_t nodes) {
  int64_t most = 0, bytes = 0;
  SortPairs(nullptr, &bytes, nullptr, nullptr, nullptr, nullptr,
            Larger(size, nodes),
            BitsFor(Larger(tree.num_classes, tree.num_groups)), nullptr);
  most = Larger(most, bytes);
  ScanSums<int64_t>(nullptr, &bytes, nullptr, nullptr, size, nullptr);
  most = Larger(most, bytes);
  ScanSums<NodeTotals>(nullptr, &bytes, nullptr, nullptr, nodes, nullptr);
  most = Larger(most, bytes);
  ScanSums<NodeWork>(nullptr, &bytes, nullptr, nullptr, nodes, nullptr);
  return Larger(most, bytes);
}

template <typename T>
void MakePlan(const Batch<T>& batch, const Bounds& bounds,
              const DevicePlan& plan, const PlanScratch& scratch,
              Accumulator<T>* loss, void* stream) {
  Labels labels = {batch.tree, batch.labels,      batch.wide_labels,
                   batch.size, batch.shape.depth, batch.num_ignored,
                   {}};
  for (int i = 0; i < batch.num_ignored; ++i) {
    labels.ignored[i] = batch.ignored[i];
  }
  const TreeView& tree = batch.tree;
  const int64_t blocks = CeilDivide(batch.size, kThreads);
  const int64_t node_blocks = CeilDivide(bounds.nodes, kThreads);
  int64_t bytes = scratch.sort_bytes;
  Launch(RankExamples, blocks, kThreads, 0, stream, labels, scratch.keys,
         scratch.values);
  SortPairs(scratch.sort, &bytes, scratch.keys, scratch.sorted_keys,
            scratch.values, plan.order, batch.size, BitsFor(tree.num_classes),
            stream);
  Launch(ClimbPaths<Accumulator<T>>, blocks, kThreads, 0, stream, labels, plan,
         loss);
  Launch(CountOpened, blocks, kThreads, 0, stream, tree, plan, scratch.opened);
  bytes = scratch.sort_bytes;
  ScanSums(scratch.sort, &bytes, scratch.opened, scratch.opened_sums,
           batch.size, stream);
  Launch(OpenNodes, node_blocks, kThreads, 0, stream, tree, plan,
         scratch.opened_sums, bounds.nodes, scratch.unsorted, scratch.keys,
         scratch.values);
  bytes = scratch.sort_bytes;
  SortPairs(scratch.sort, &bytes, scratch.keys, scratch.sorted_keys,
            scratch.values, scratch.sorted_values, bounds.nodes,
            BitsFor(tree.num_groups), stream);
  Launch(SortNodes, node_blocks, kThreads, 0, stream, plan, scratch.opened_sums,
         bounds.nodes, scratch.unsorted, scratch.sorted_values, scratch.totals);
  bytes = scratch.sort_bytes;
  ScanSums(scratch.sort, &bytes, scratch.totals, plan.totals, bounds.nodes,
           stream);
  Launch(CutNodes, node_blocks, kThreads, 0, stream, plan, bounds.nodes,
         bounds.logits, scratch.work);
  bytes = scratch.sort_bytes;
  ScanSums(scratch.sort, &bytes, scratch.work, plan.work, bounds.nodes, stream);
  Launch(KeepCounts, 1, kWarp, 0, stream, plan, bounds.nodes);
}

void ListItems(ItemKind kind, const Bounds& bounds, const DevicePlan& plan,
               Item* items, void* stream) {
  const int64_t most = kind == ItemKind::kForward    ? bounds.forward_items
                       : kind == ItemKind::kBackward ? bounds.backward_items
                                                     : bounds.small_items;
  const int64_t most_slots =
      kind == ItemKind::kForward ? bounds.forward_slots : bounds.merge_slots;
  Launch(FillItems, CeilDivide(most, kThreads), kThreads, 0, stream, plan, kind,
         most, most_slots, items);
}

void ListRows(const DevicePlan& plan, int64_t* rows, int64_t capacity,
              void* stream) {
  Launch(FillRows, CeilDivide(capacity, kThreads), kThreads, 0, stream, plan,
         rows, capacity);
}

#define TF_HSM_INSTANTIATE(T)                                                  \
  template void MakePlan<T>(const Batch<T>&, const Bounds&, const DevicePlan&, \
                            const PlanScratch&, Accumulator<T>*, void*);
TF_HSM_INSTANTIATE(float)
TF_HSM_INSTANTIATE(double)
TF_HSM_INSTANTIATE(bfloat16)
TF_HSM_INSTANTIATE(half)
#undef TF_HSM_INSTANTIATE

}  // namespace gpu
}  // namespace tf_hsm
