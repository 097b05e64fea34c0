#include <algorithm>

#include "cc/cuda/plan/visits.h"

namespace tf_hsm::gpu {
namespace {

DeviceNode MakeNode(const Node& from, int64_t logits_offset) {
  DeviceNode node = {};
  node.group = from.group;
  node.first_row = from.first_row;
  node.fanout = from.fanout;
  node.logits_offset = logits_offset;
  node.begin = static_cast<int32_t>(from.begin);
  node.end = static_cast<int32_t>(from.end);
  node.kept_examples = static_cast<int32_t>(from.population());
  node.large = true;
  return node;
}

int64_t TilesOf(const Node& node) {
  return CeilDivide(node.fanout, kTileRows) *
         CeilDivide(node.population(), kTileExamples);
}

Cuts CutsOf(const Plan& plan, int64_t forward_examples) {
  int64_t tiles = 0;
  for (const Node& node : plan.nodes) tiles += TilesOf(node);
  const int64_t share = CeilDivide(tiles, kTargetItems);
  Cuts cuts;
  cuts.row_tiles = Larger(kMinRowTiles, share);
  cuts.example_tiles = Larger(kMinExampleTiles, share);
  cuts.forward_examples = forward_examples;
  // No node asks for these, but all are divided by.
  cuts.hot_row_tiles = cuts.hot_example_tiles = cuts.small_examples = 1;
  return cuts;
}

void Copy(const std::vector<int64_t>& from, int32_t* to) {
  std::transform(from.begin(), from.end(), to,
                 [](int64_t value) { return static_cast<int32_t>(value); });
}

}  // namespace

std::vector<char> PackVisits(const LabelPlan& labels,
                             int64_t forward_examples) {
  const Plan& plan = labels.plan;
  const auto count = static_cast<int64_t>(plan.nodes.size());
  const Cuts cuts = CutsOf(plan, forward_examples);
  std::vector<DeviceNode> nodes;
  std::vector<NodeTotals> totals;
  std::vector<NodeWork> work;
  NodeTotals all = {};
  NodeWork all_work = {};
  for (const Node& from : plan.nodes) {
    const DeviceNode node = MakeNode(from, all.logits);
    all.rows += node.fanout;
    all.logits += node.logits_stride() * node.population();
    all_work = all_work + cuts.WorkOf(node);
    nodes.push_back(node);
    totals.push_back(all);
    work.push_back(all_work);
  }
  VisitHeader header = {};
  header.num_examples = static_cast<int64_t>(labels.example_starts.size()) - 1;
  header.num_positives = static_cast<int64_t>(labels.positives.size());
  header.counts = {all.rows, count, cuts, all_work};
  Bounds& bounds = header.bounds;
  bounds.passes = labels.num_visits();
  bounds.nodes = count;
  bounds.rows = all.rows;
  bounds.forward_items = all_work.forward_items;
  bounds.forward_slots = all_work.forward_slots;
  bounds.backward_items = all_work.backward_items;
  bounds.merge_slots = all_work.merge_slots;
  bounds.logits = all.logits;
  bounds.forward_examples = forward_examples;

  DevicePlan to;
  VisitLists lists;
  std::vector<char> bytes(LayOutVisits(header, nullptr, &to, &lists));
  LayOutVisits(header, bytes.data(), &to, &lists);
  *reinterpret_cast<VisitHeader*>(bytes.data()) = header;
  Copy(plan.order, to.order);
  std::copy(nodes.begin(), nodes.end(), to.nodes);
  std::copy(totals.begin(), totals.end(), to.totals);
  std::copy(work.begin(), work.end(), to.work);
  Copy(labels.positive_starts, lists.positive_starts);
  Copy(labels.positives, lists.positives);
  Copy(labels.example_starts, lists.example_starts);
  Copy(labels.example_visits, lists.example_visits);
  return bytes;
}

}  // namespace tf_hsm::gpu
