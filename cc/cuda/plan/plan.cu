// Finds the touched groups of a batch without asking the host.
//
// Checks the path of each label (climb.h), sorts the examples by the rank of
// their leaf, lists their paths, and counts at each example the groups that the
// one before it did not pass: these begin here. Their ends are found by a
// search that doubles its step, since passing a group is an interval. One more
// sort, of the touched groups, gives rows ascending and unique. Costs two radix
// sorts, three scans and a few reads per pass, whatever the number of classes.
//
// A label out of range, or a path on which the tree's arrays contradict each
// other, gives its example the depth 0 and a loss of NaN; an ignored one the
// loss 0. Both stand last, so that they split no interval.

#include <cmath>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/device/sort_scan.h"
#include "cc/cuda/plan/climb.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm {
namespace gpu {
namespace {

// Keys: the rank of the leaf; num_classes, which is last, for those without a
// path, whose loss this writes.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
RankExamples(Labels labels, uint64_t* keys, int32_t* values, int32_t* depths,
             A* loss) {
  const int64_t i = GlobalIndex();
  if (i >= labels.size) return;
  const TreeView& tree = labels.tree;
  const int64_t label = labels.At(i);
  const bool ignored = labels.Ignored(label);
  int64_t rank = tree.num_classes;
  int depth = 0;
  if (!ignored && label >= 0 && label < tree.num_classes) {
    const int64_t own = tree.class_ranks[label];
    if (own >= 0 && own < tree.num_classes) {
      depth = DepthOf(tree, labels.shape, tree.class_rows[label]);
    }
    if (depth > 0) rank = own;
  }
  if (depth == 0) loss[i] = ignored ? A(0) : static_cast<A>(NAN);
  depths[i] = depth;
  keys[i] = static_cast<uint64_t>(rank);
  values[i] = static_cast<int32_t>(i);
}

TF_HSM_KERNEL(kBlockThreads)
ClimbPaths(Labels labels, DevicePlan plan, const int32_t* depths) {
  const int64_t position = GlobalIndex();
  if (position >= labels.size) return;
  const TreeView& tree = labels.tree;
  const int32_t example = plan.order[position];
  const int depth = depths[example];
  plan.depths[position] = depth;
  int64_t row = depth > 0 ? tree.class_rows[labels.At(example)] : -1;
  for (int64_t level = labels.shape.depth - 1; level >= 0; --level) {
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
TF_HSM_KERNEL(kBlockThreads)
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

TF_HSM_KERNEL(kBlockThreads)
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
  node.hot = false;
  node.level = static_cast<int32_t>(level);
  node.begin = static_cast<int32_t>(position);
  node.end =
      static_cast<int32_t>(EndOf(plan, level, position, node.first_row, last));
  unsorted[t] = node;
  keys[t] = static_cast<uint64_t>(node.group);
}

TF_HSM_KERNEL(kBlockThreads)
SortNodes(DevicePlan plan, bool hot, const int64_t* opened_sums, int64_t most,
          const DeviceNode* unsorted, const int32_t* sorted_values,
          NodeTotals* totals) {
  const int64_t n = GlobalIndex();
  if (n >= most) return;
  totals[n] = {};
  const int64_t count = Smaller(opened_sums[plan.size - 1], most);
  if (n == 0) plan.counts->num_nodes = count;
  if (n >= count) return;
  DeviceNode node = unsorted[sorted_values[n]];
  node.hot = hot && node.large() && node.population() > kMaxStreamExamples;
  plan.nodes[n] = node;
  totals[n].rows = node.fanout;
  if (node.large()) {
    totals[n].tiles = node.row_tiles() * node.example_tiles() *
                      (node.hot ? kTilesPerHotTile : 1);
    totals[n].logits = node.fanout * node.population();
  } else {
    totals[n].small_passes = node.population();
  }
}

// How nodes are cut follows from the totals of all of them.
TF_HSM_DEVICE Cuts CutsOf(const NodeTotals& all, int64_t hot_items) {
  Cuts cuts;
  const int64_t share = CeilDivide(all.tiles, kTargetItems);
  cuts.row_tiles = Larger(kMinRowTiles, share);
  cuts.example_tiles = Larger(kMinExampleTiles, share);
  const int64_t hot_share =
      CeilDivide(all.tiles, Larger<int64_t>(1, hot_items) * kTilesPerHotTile);
  cuts.hot_row_tiles = Larger<int64_t>(1, hot_share);
  cuts.hot_example_tiles = Larger(kMinHotExampleTiles, hot_share);
  cuts.small_examples =
      Larger(kMinSmallExamples, CeilDivide(all.small_passes, kTargetItems));
  return cuts;
}

TF_HSM_KERNEL(kBlockThreads)
CutNodes(DevicePlan plan, int64_t hot_items, int64_t most, int64_t most_logits,
         NodeWork* work) {
  const int64_t n = GlobalIndex();
  if (n >= most) return;
  const NodeTotals all = plan.totals[most - 1];
  const Cuts cuts = CutsOf(all, hot_items);
  if (n == 0) plan.counts->cuts = cuts;
  work[n] = {};
  if (n >= plan.counts->num_nodes) return;
  DeviceNode& node = plan.nodes[n];
  if (node.large()) {
    if (plan.totals[n].logits <= most_logits) {
      node.logits_offset =
          plan.totals[n].logits - node.fanout * node.population();
    } else {
      node.hot = false;
    }
    work[n].forward_items = cuts.RowPieces(node) * node.example_tiles();
    work[n].forward_slots = cuts.RowPieces(node) * node.population();
    work[n].backward_items = node.row_tiles() * cuts.ExamplePieces(node);
  } else {
    work[n].small_items = cuts.ExamplePieces(node);
  }
  if (cuts.Merges(node)) {
    work[n].merge_slots = node.fanout * cuts.ExamplePieces(node);
    work[n].merge_rows = node.fanout;
  }
}

// Labels cannot ask for more than the bounds; a tree whose arrays contradict
// each other can.
TF_HSM_KERNEL(kBlockThreads)
KeepCounts(DevicePlan plan, Bounds bounds) {
  if (GlobalIndex() != 0) return;
  NodeWork work = plan.work[bounds.nodes - 1];
  work.forward_items = Smaller(work.forward_items, bounds.forward_items);
  work.backward_items = Smaller(work.backward_items, bounds.backward_items);
  work.small_items = Smaller(work.small_items, bounds.small_items);
  plan.counts->work = work;
  plan.counts->num_rows =
      Smaller(plan.totals[bounds.nodes - 1].rows, bounds.rows);
}

}  // namespace

int64_t SortBytes(const TreeView& tree, int64_t size, int64_t nodes) {
  // A query that fails asks for nothing; then the call fails and says why.
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
std::string MakePlan(const Batch<T>& batch, const Bounds& bounds,
                     int64_t hot_items, const DevicePlan& plan,
                     const PlanScratch& scratch, Accumulator<T>* loss,
                     void* stream) {
  Labels labels = {batch.tree,
                   batch.shape,
                   batch.labels,
                   batch.labels_are_int64,
                   batch.size,
                   batch.num_ignored,
                   {}};
  for (int i = 0; i < batch.num_ignored; ++i) {
    labels.ignored[i] = batch.ignored[i];
  }
  const TreeView& tree = batch.tree;
  const int64_t size = batch.size, nodes = bounds.nodes;
  std::string error;
  // Whether it went well: what follows reads what is sorted as indices.
  auto sort = [&](int32_t* sorted_values, int64_t count, int64_t most) {
    int64_t bytes = scratch.sort_bytes;
    error =
        SortPairs(scratch.sort, &bytes, scratch.keys, scratch.sorted_keys,
                  scratch.values, sorted_values, count, BitsFor(most), stream);
    return error.empty();
  };
  auto scan = [&](auto* values, auto* sums, int64_t count) {
    int64_t bytes = scratch.sort_bytes;
    error = ScanSums(scratch.sort, &bytes, values, sums, count, stream);
    return error.empty();
  };
  LaunchEach(RankExamples<Accumulator<T>>, size, stream, labels, scratch.keys,
             scratch.values, scratch.depths, loss);
  if (!sort(plan.order, size, tree.num_classes)) return error;
  LaunchEach(ClimbPaths, size, stream, labels, plan, scratch.depths);
  LaunchEach(CountOpened, size, stream, tree, plan, scratch.opened);
  if (!scan(scratch.opened, scratch.opened_sums, size)) return error;
  LaunchEach(OpenNodes, nodes, stream, tree, plan, scratch.opened_sums, nodes,
             scratch.unsorted, scratch.keys, scratch.values);
  if (!sort(scratch.sorted_values, nodes, tree.num_groups)) return error;
  LaunchEach(SortNodes, nodes, stream, plan, hot_items > 0, scratch.opened_sums,
             nodes, scratch.unsorted, scratch.sorted_values, scratch.totals);
  if (!scan(scratch.totals, plan.totals, nodes)) return error;
  LaunchEach(CutNodes, nodes, stream, plan, hot_items, nodes, bounds.logits,
             scratch.work);
  if (!scan(scratch.work, plan.work, nodes)) return error;
  Launch(KeepCounts, 1, kWarp, 0, stream, plan, bounds);
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(MakePlan, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace gpu
}  // namespace tf_hsm
