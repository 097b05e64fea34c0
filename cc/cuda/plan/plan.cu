// Finds the touched groups of a batch without asking the host.
//
// Checks the path of each label (paths.h), sorts the examples by the rank of
// their leaf, lists their paths, and counts at each example the groups that the
// one before it did not pass: these begin here. Their ends are found by a
// search that doubles its step, since passing a group is an interval. One more
// sort, of the touched groups, gives rows ascending and unique. Costs two radix
// sorts, three scans and a few reads per pass, whatever the number of classes.
// Few examples are one block's work, with the same stages and the same plan.
//
// A label out of range, or a path on which the tree's arrays contradict each
// other, gives its example the depth 0 and a loss of NaN; an ignored one the
// loss 0. Both stand last, so that they split no interval.

#include <algorithm>

#include "cc/cuda/device/block_sort.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/device/sort_scan.h"
#include "cc/cuda/plan/cut.h"
#include "cc/cuda/plan/paths.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {
namespace {

TF_HSM_KERNEL(kBlockThreads)
RankExamples(PlanTask task) {
  if (GlobalIndex() < task.plan.size) RankExample(task, GlobalIndex());
}

TF_HSM_KERNEL(kBlockThreads)
ClimbPaths(PlanTask task) {
  if (GlobalIndex() < task.plan.size) ClimbPath(task, GlobalIndex());
}

TF_HSM_KERNEL(kBlockThreads)
CountAllOpened(PlanTask task) {
  if (GlobalIndex() < task.plan.size) CountOpened(task, GlobalIndex());
}

TF_HSM_KERNEL(kBlockThreads)
OpenNodes(PlanTask task) {
  if (GlobalIndex() < task.bounds.nodes) OpenNode(task, GlobalIndex());
}

TF_HSM_KERNEL(kBlockThreads)
SortNodes(PlanTask task) {
  if (GlobalIndex() < task.bounds.nodes) SortNode(task, GlobalIndex());
}

TF_HSM_KERNEL(kBlockThreads)
CutNodes(PlanTask task) {
  if (GlobalIndex() < task.bounds.nodes) CutNode(task, GlobalIndex());
}

TF_HSM_KERNEL(kWarp)
KeepAllCounts(PlanTask task) {
  if (GlobalIndex() == 0) KeepCounts(task);
}

std::string MakeLargePlan(const PlanTask& task, void* stream) {
  const PlanScratch& scratch = task.scratch;
  const DevicePlan& plan = task.plan;
  const TreeView& tree = task.labels.tree;
  const int64_t size = plan.size, nodes = task.bounds.nodes;
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
  LaunchEach(RankExamples, size, stream, task);
  if (!sort(plan.order, size, tree.num_classes)) return error;
  LaunchEach(ClimbPaths, size, stream, task);
  LaunchEach(CountAllOpened, size, stream, task);
  if (!scan(scratch.opened, scratch.opened_sums, size)) return error;
  LaunchEach(OpenNodes, nodes, stream, task);
  if (!sort(scratch.sorted_values, nodes, tree.num_groups)) return error;
  LaunchEach(SortNodes, nodes, stream, task);
  if (!scan(scratch.totals, plan.totals, nodes)) return error;
  LaunchEach(CutNodes, nodes, stream, task);
  if (!scan(scratch.work, plan.work, nodes)) return error;
  Launch(KeepAllCounts, 1, kWarp, 0, stream, task);
  if (task.forward_items != nullptr) {
    ListForward(task.bounds, plan, task.forward_items, stream);
  }
  return "";
}

// A plan in one launch, where MakeLargePlan has fifteen, since a small step is
// bound by launches.

using Sort = BlockSort<kPlanThreads, kPlanKeys>;

// stage(i) for each i below `count`, behind all that came before.
template <typename Stage>
TF_HSM_DEVICE void ForEach(int64_t count, const Stage& stage) {
  SyncBlock();
  for (int64_t i = ThreadIndex(); i < count; i += kPlanThreads) stage(i);
}

TF_HSM_KERNEL(kPlanThreads)
PlanInOneBlock(PlanTask task, int class_bits, int group_bits) {
  const PlanScratch& scratch = task.scratch;
  const DevicePlan& plan = task.plan;
  const int64_t size = plan.size, nodes = task.bounds.nodes;
  ForEach(size, [&](int64_t i) { RankExample(task, i); });
  Sort::Run(scratch.keys, static_cast<int>(size), class_bits, plan.order);
  ForEach(size, [&](int64_t i) { ClimbPath(task, i); });
  ForEach(size, [&](int64_t i) { CountOpened(task, i); });
  ScanInBlock(scratch.opened, size, scratch.opened_sums);
  ForEach(nodes, [&](int64_t t) { OpenNode(task, t); });
  Sort::Run(scratch.keys, static_cast<int>(nodes), group_bits,
            scratch.sorted_values);
  ForEach(nodes, [&](int64_t n) { SortNode(task, n); });
  ScanInBlock(scratch.totals, nodes, plan.totals);
  ForEach(nodes, [&](int64_t n) { CutNode(task, n); });
  ScanInBlock(scratch.work, nodes, plan.work);
  ForEach(1, [&](int64_t) { KeepCounts(task); });
  if (task.forward_items == nullptr) return;
  SyncBlock();
  ForEach(plan.counts->work.forward_items, [&](int64_t i) {
    ListItem(plan, ItemKind::kForward, i, task.bounds.forward_slots,
             task.forward_items);
  });
}

void MakePlanInOneBlock(const PlanTask& task, void* stream) {
  constexpr int64_t kBytes = std::max(
      Sort::kSharedBytes,
      std::max(BlockScanBytes<NodeTotals>(), BlockScanBytes<NodeWork>()));
  static_assert(kBytes <= 48 << 10, "what a block has anywhere");
  Launch(PlanInOneBlock, 1, kPlanThreads, kBytes, stream, task,
         BitsFor(task.labels.tree.num_classes),
         BitsFor(task.labels.tree.num_groups));
}

}  // namespace

int64_t SortBytes(const TreeView& tree, int64_t size, const Bounds& bounds) {
  if (bounds.one_block) return 0;
  // A query that fails asks for nothing; then the call fails and says why.
  int64_t most = 0, bytes = 0;
  SortPairs(nullptr, &bytes, nullptr, nullptr, nullptr, nullptr,
            Larger(size, bounds.nodes),
            BitsFor(Larger(tree.num_classes, tree.num_groups)), nullptr);
  most = Larger(most, bytes);
  ScanSums<int64_t>(nullptr, &bytes, nullptr, nullptr, size, nullptr);
  most = Larger(most, bytes);
  ScanSums<NodeTotals>(nullptr, &bytes, nullptr, nullptr, bounds.nodes,
                       nullptr);
  most = Larger(most, bytes);
  ScanSums<NodeWork>(nullptr, &bytes, nullptr, nullptr, bounds.nodes, nullptr);
  return Larger(most, bytes);
}

template <typename T>
std::string MakePlan(const Batch<T>& batch, const Bounds& bounds,
                     const DevicePlan& plan, const PlanScratch& scratch,
                     Accumulator<T>* loss, Item* forward_items, void* stream) {
  const PlanTask task = {
      LabelsOf(batch), {loss, sizeof(Accumulator<T>) == sizeof(double)},
      bounds,          plan,
      scratch,         forward_items};
  if (!bounds.one_block) return MakeLargePlan(task, stream);
  MakePlanInOneBlock(task, stream);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(MakePlan, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
