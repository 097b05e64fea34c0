#include "cc/core/api/label_tree.h"

#include <algorithm>
#include <vector>

namespace tf_hsm {
namespace {

// Multiply-adds below which work is not given to another thread.
constexpr int64_t kItemCost = 1 << 18;

// Examples whose visits are summed in one work item.
constexpr int64_t kSumExamples = 32;

// The visits of each node, kMaxItemExamples at a time, and where the work items
// of several such slices end.
struct Items {
  std::vector<Slice> slices;
  std::vector<int64_t> ends = {0};
};

Items CutForward(const Plan& plan, int64_t width) {
  Items items;
  int64_t cost = 0;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const Node& node = plan.nodes[i];
    for (int64_t begin = node.begin; begin < node.end;
         begin += kMaxItemExamples) {
      const int64_t end = std::min(begin + kMaxItemExamples, node.end);
      items.slices.push_back({static_cast<int64_t>(i), begin, end, 0});
      cost += (end - begin) * node.fanout * (width + 16);
      if (cost < kItemCost) continue;
      items.ends.push_back(items.slices.size());
      cost = 0;
    }
  }
  if (cost > 0) items.ends.push_back(items.slices.size());
  return items;
}

}  // namespace

template <typename T>
void LabelTreeForward(const LabelPlan& plan, const Problem<T>& problem,
                      const KernelTable<T>& table, const Parallel& parallel,
                      const LabelTreeOutputs<T>& outputs) {
  using A = Accumulator<T>;
  const int64_t width = problem.width, padded = Padded(width);
  const int64_t batch = plan.example_starts.size() - 1;
  std::vector<A> losses(plan.num_visits());
  std::vector<A> dx(outputs.dx == nullptr ? 0 : plan.num_visits() * padded);
  auto visit = [&](const Slice& slice) {
    const Node& node = plan.plan.nodes[slice.node];
    const int64_t offsets[] = {0, node.fanout};
    const T* weights = problem.weights + node.first_row * width;
    const int64_t count = slice.end - slice.begin;
    A* dz = outputs.dz + node.prob_offset +
            (slice.begin - node.begin) * node.fanout;
    GroupRows<T> rows;
    rows.weights = weights;
    if (problem.biases != nullptr) {
      rows.biases = problem.biases + node.first_row;
    }
    rows.width = width;
    rows.x = problem.x + slice.begin * padded;
    rows.num_examples = count;
    rows.group_offsets = offsets;
    rows.num_groups = 1;
    table.label_losses(rows, plan.positive_starts.data() + slice.begin,
                       plan.positives.data(), losses.data() + slice.begin, dz);
    if (outputs.dx == nullptr) return;
    table.add_expectations(weights, node.fanout, width, dz, node.fanout, count,
                           dx.data() + slice.begin * padded);
  };
  const Items items = CutForward(plan.plan, width);
  parallel(items.ends.size() - 1, [&](int64_t i) {
    for (int64_t at = items.ends[i]; at < items.ends[i + 1]; ++at) {
      visit(items.slices[at]);
    }
  });
  // In the order of the groups, on any number of threads.
  auto sum = [&](int64_t example) {
    A loss = 0;
    const A factor =
        outputs.dx_factors == nullptr ? 1 : outputs.dx_factors[example];
    A* total = outputs.dx == nullptr ? nullptr : outputs.dx + example * width;
    if (total != nullptr) std::fill_n(total, width, A(0));
    for (int64_t at = plan.example_starts[example];
         at < plan.example_starts[example + 1]; ++at) {
      const int64_t of_visit = plan.example_visits[at];
      loss += losses[of_visit];
      if (total == nullptr) continue;
      const A* part = dx.data() + of_visit * padded;
      for (int64_t d = 0; d < width; ++d) total[d] += factor * part[d];
    }
    outputs.loss[example] = loss;
  };
  parallel((batch + kSumExamples - 1) / kSumExamples, [&](int64_t i) {
    const int64_t end = std::min((i + 1) * kSumExamples, batch);
    for (int64_t at = i * kSumExamples; at < end; ++at) sum(at);
  });
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(LabelTreeForward, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
