// Makes a plan in one block: see one_block.h.

#include <algorithm>

#include "cc/cuda/device/block_sort.h"
#include "cc/cuda/plan/cut.h"
#include "cc/cuda/plan/one_block.h"

namespace tf_hsm::gpu {
namespace {

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

}  // namespace

void MakePlanInOneBlock(const PlanTask& task, void* stream) {
  constexpr int64_t kBytes = std::max(
      Sort::kSharedBytes,
      std::max(BlockScanBytes<NodeTotals>(), BlockScanBytes<NodeWork>()));
  static_assert(kBytes <= 48 << 10, "what a block has anywhere");
  Launch(PlanInOneBlock, 1, kPlanThreads, kBytes, stream, task,
         BitsFor(task.labels.tree.num_classes),
         BitsFor(task.labels.tree.num_groups));
}

}  // namespace tf_hsm::gpu
