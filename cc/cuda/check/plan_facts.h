// What a plan has work for: a case that is named for a kernel must give it
// some.

#ifndef TF_HSM_CC_CUDA_CHECK_PLAN_FACTS_H_
#define TF_HSM_CC_CUDA_CHECK_PLAN_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/cuda/check/check_support.h"
#include "cc/cuda/loss/loss_launcher.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

struct PlanFacts {
  int64_t hot_examples = 0;
  int64_t hot_forward_items = 0;      // of HotLogits and HotRows
  int64_t hot_backward_items = 0;     // of HotGradients
  int64_t forward_items = 0;          // of ForwardLarge
  int64_t backward_items = 0;         // of BackwardLarge
  int64_t nodes_cut_by_rows = 0;      // whose pieces WalkPaths merges
  int64_t nodes_cut_by_examples = 0;  // likewise MergeRows
  int64_t nodes_in_two_parts = 0;     // hot and other
};

inline PlanFacts FactsOf(const std::vector<DeviceNode>& nodes,
                         const Counts& counts) {
  PlanFacts facts;
  const Cuts& cuts = counts.cuts;
  for (int64_t n = 0; n < counts.num_nodes; ++n) {
    const DeviceNode& node = nodes[n];
    facts.nodes_cut_by_examples += cuts.Merges(node);
    if (!node.large) continue;
    const int64_t of_hot = node.Examples(true);
    facts.hot_examples += of_hot;
    facts.hot_forward_items += cuts.ForwardItems(node, true);
    facts.hot_backward_items += cuts.BackwardItems(node, true);
    facts.forward_items += cuts.ForwardItems(node, false);
    facts.backward_items += cuts.BackwardItems(node, false);
    facts.nodes_cut_by_rows += cuts.RowPieces(node, of_hot > 0) > 1;
    facts.nodes_in_two_parts += of_hot > 0 && of_hot < node.population();
  }
  return facts;
}

// The work that a case is named for and that the plan in `memory`, behind a
// Forward, does not have; an empty string: none.
template <typename T>
std::string MissingWork(const Batch<T>& batch, const Memory& memory,
                        int needs) {
  if (batch.size == 0 || needs == 0) return "";
  if ((needs & kChunks) != 0) {
    const bool there = ChunkExamples(batch, memory.logits_bytes) > 0;
    return there || !kSumsInFloat<T> ? "" : "no chunks ";
  }
  const LossLauncher<T> launcher(batch, memory, nullptr);
  const DevicePlan& plan = launcher.buffers.plan;
  Counts counts;
  DeviceBlock::Download(plan.counts, sizeof(counts), &counts);
  std::vector<DeviceNode> nodes(counts.num_nodes);
  DeviceBlock::Download(plan.nodes, nodes.size() * sizeof(DeviceNode),
                        nodes.data());
  const PlanFacts facts = FactsOf(nodes, counts);
  std::string missing;
  auto expect = [&](int need, bool there, const char* what) {
    if ((needs & need) != 0 && !there) {
      missing += std::string("no ") + what + " ";
    }
  };
  if (kSumsInFloat<T>) {
    expect(kHot, facts.hot_forward_items > 0 && facts.hot_backward_items > 0,
           "hot items");
    expect(kTwoParts, facts.nodes_in_two_parts > 0, "node in two parts");
  }
  expect(kCutRows, facts.nodes_cut_by_rows > 0, "node cut by rows");
  expect(kCutExamples, facts.nodes_cut_by_examples > 0, "node cut by examples");
  expect(kSlabs, launcher.shape.slabs.count > 1, "slabs");
  expect(kHalfItems, launcher.shape.forward_examples < kTileExamples,
         "items of fewer examples");
  expect(kNotHot, facts.forward_items > 0 && facts.backward_items > 0,
         "items that are not hot");
  return missing;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_PLAN_FACTS_H_
