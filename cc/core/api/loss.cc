#include "cc/core/api/loss.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace tf_hsm {
namespace {

// Work below this many multiply-adds is not worth a work item of its own.
constexpr int64_t kItemCost = 1 << 20;

// A gradient of at most this size is left in the cache for the optimizer.
constexpr int64_t kCachedBytes = 16 << 20;

// The largest first: the last item to start is then a small one.
void SortByCost(std::vector<Slice>* slices) {
  std::stable_sort(
      slices->begin(), slices->end(),
      [](const Slice& a, const Slice& b) { return a.cost > b.cost; });
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Work items of a hot group, if there is work for as many: enough for a few
// threads.
constexpr int64_t kManySlices = 8;

// Probabilities that a work item may keep for itself.
constexpr int64_t kMaxItemProbs = 1 << 20;

bool IsSmall(const Node& node) { return node.fanout <= kMaxSmallFanout; }

// Whether the forward has all of the node's examples at once, so that a
// training step can update the node there without what other examples give.
bool IsUpdatedAtOnce(const Node& node) {
  if (IsSmall(node)) return node.Count(kBlockExamples) == 1;
  return node.population() <= kMaxItemExamples &&
         node.population() * node.fanout <= kMaxItemProbs;
}

// Whether a single work item of the forward visits the node, and updates it.
bool ForwardUpdates(const Plan& plan, const Node& node) {
  return IsUpdatedAtOnce(node) ||
         (node.has_partials() && node.Count(plan.span) == 1);
}

// A group's examples in even slices of at most `most`, but in kManySlices where
// that leaves each kMaxItemExamples.
void SliceExamples(const Node& node, int64_t index, int64_t most,
                   std::vector<Slice>* slices) {
  const int64_t population = node.population();
  const int64_t parts =
      std::max(CeilDivide(population, most),
               std::min(kManySlices, CeilDivide(population, kMaxItemExamples)));
  const int64_t size = CeilDivide(population, parts);
  for (int64_t begin = node.begin; begin < node.end; begin += size) {
    const int64_t end = std::min(begin + size, node.end);
    slices->push_back({index, begin, end, (end - begin + 4) * node.fanout});
  }
}

// The groups that are not small, by how many such groups lie above them: those
// of one level share no example, so their dx do not collide.
std::vector<std::vector<Slice>> ForwardLevels(const Plan& plan, int64_t most) {
  std::vector<std::vector<Slice>> levels;
  if (plan.num_large == 0) return levels;
  std::vector<int64_t> level(plan.nodes.size());
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const Node& node = plan.nodes[i];
    const bool large = !IsSmall(node);
    const int64_t above = node.parent < 0 ? 0 : level[node.parent];
    level[i] = above + large;
    if (!large) continue;
    if (above >= static_cast<int64_t>(levels.size())) levels.emplace_back();
    SliceExamples(node, i, most, &levels[above]);
  }
  for (auto& slices : levels) SortByCost(&slices);
  return levels;
}

bool HasSmall(const Plan& plan) {
  return plan.num_large < static_cast<int64_t>(plan.nodes.size());
}

// Calls span(begin, end) for the examples, if there are small groups, and then
// group(slice) for the others. Needs no memory after the first call.
template <typename Span, typename Group>
void InForwardOrder(const Plan& plan, int64_t most, const Parallel& parallel,
                    const Span& span, const Group& group) {
  const std::vector<std::vector<Slice>> levels = ForwardLevels(plan, most);
  if (HasSmall(plan)) {
    const int64_t count = plan.num_examples();
    auto run = [&](int64_t i) {
      span(i * plan.span, std::min((i + 1) * plan.span, count));
    };
    parallel(CeilDivide(count, plan.span), std::ref(run));
  }
  for (const std::vector<Slice>& slices : levels) {
    auto run = [&](int64_t i) { group(slices[i]); };
    parallel(slices.size(), std::ref(run));
  }
}

// The work items of a backward: large groups are cut by rows; small ones,
// depth-first so that neighbours share examples, are run together.
struct BackwardItems {
  std::vector<Slice> large, small;
  std::vector<int64_t> batches = {0};  // of `small`
};

// Those of the nodes for which `wanted` holds.
template <typename T, typename Wanted>
BackwardItems CutBackward(const Problem<T>& problem,
                          const KernelTable<T>& table, const Wanted& wanted) {
  const Plan& plan = *problem.plan;
  BackwardItems items;
  auto& [large, small, batches] = items;
  int64_t batch_cost = 0;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const Node& node = plan.nodes[i];
    if (!wanted(node)) continue;
    const int64_t rows = plan.NumWeightRows(node);
    const int64_t row_cost = (node.population() + 4) * problem.width;
    if (rows * row_cost < kItemCost) {
      small.push_back({static_cast<int64_t>(i), 0, rows, 0});
      batch_cost += rows * row_cost;
      if (batch_cost >= kItemCost) {
        batches.push_back(small.size());
        batch_cost = 0;
      }
      continue;
    }
    // Not small, so neither is row_cost zero.
    const int64_t step = table.backward_row_step;
    const int64_t size = CeilDivide(4 * kItemCost, row_cost * step) * step;
    for (int64_t begin = 0; begin < rows; begin += size) {
      const int64_t end = std::min(begin + size, rows);
      large.push_back(
          {static_cast<int64_t>(i), begin, end, (end - begin) * row_cost});
    }
  }
  if (batches.back() < static_cast<int64_t>(small.size())) {
    batches.push_back(small.size());
  }
  SortByCost(&large);
  return items;
}

// Needs no memory.
template <typename T>
void RunBackward(const BackwardItems& items, const Problem<T>& problem,
                 const KernelTable<T>& table, const Parallel& parallel,
                 const BackwardArguments<T>& arguments) {
  const int64_t num_large = items.large.size();
  auto run = [&](int64_t i) {
    if (i < num_large) {
      table.backward_rows(problem, &items.large[i], 1, arguments);
      return;
    }
    const int64_t first = items.batches[i - num_large];
    table.backward_rows(problem, items.small.data() + first,
                        items.batches[i - num_large + 1] - first, arguments);
  };
  parallel(num_large + items.batches.size() - 1, std::ref(run));
}

// Kept by its thread for the next item.
template <typename A>
std::vector<A>& ItemProbs() {
  static thread_local std::vector<A> probs;
  return probs;
}

}  // namespace

bool AddsDx(const Plan& plan, int64_t batch) {
  return !HasSmall(plan) || plan.num_examples() < batch;
}

template <typename T>
void Forward(const Problem<T>& problem, const KernelTable<T>& table,
             const Parallel& parallel, const ForwardOutputs<T>& outputs) {
  InForwardOrder(
      *problem.plan, table.forward_examples, parallel,
      [&](int64_t begin, int64_t end) {
        table.small_groups(problem, begin, end, outputs, nullptr);
      },
      [&](const Slice& slice) {
        table.forward_group(problem, slice, outputs);
      });
}

template <typename T>
void Backward(const Problem<T>& problem, const KernelTable<T>& table,
              const Parallel& parallel, const BackwardArguments<T>& arguments) {
  BackwardArguments<T> with_hint = arguments;
  with_hint.past_cache =
      problem.plan->num_rows * problem.width * static_cast<int64_t>(sizeof(T)) >
      kCachedBytes;
  const BackwardItems items =
      CutBackward(problem, table, [](const Node&) { return true; });
  RunBackward(items, problem, table, parallel, with_hint);
}

template <typename T>
void LossInChunks(const Problem<T>& problem, const KernelTable<T>& table,
                  const Parallel& parallel, const ForwardOutputs<T>& outputs,
                  const BackwardArguments<T>& arguments, int64_t chunk,
                  Accumulator<T>* probs, GradientSums<Accumulator<T>> sums) {
  const Node& node = problem.plan->nodes[0];
  const BackwardItems rows =
      CutBackward(problem, table, [](const Node&) { return true; });
  ForwardOutputs<T> forward = outputs;
  BackwardArguments<T> backward = arguments;
  backward.sums = &sums;
  std::vector<Slice> slices;
  for (int64_t begin = node.begin; begin < node.end; begin += chunk) {
    Node part = node;
    part.begin = sums.begin = begin;
    part.end = sums.end = std::min(begin + chunk, node.end);
    slices.clear();
    SliceExamples(part, 0, table.forward_examples, &slices);
    // Kernels look for an example's probabilities where they would lie if all
    // examples had theirs.
    forward.probs = probs - (begin - node.begin) * node.fanout;
    backward.probs = forward.probs;
    backward.update = sums.end == node.end ? arguments.update : nullptr;
    parallel(slices.size(), [&](int64_t i) {
      table.forward_group(problem, slices[i], forward);
    });
    RunBackward(rows, problem, table, parallel, backward);
  }
}

void PlanTraining(Plan* plan, int64_t max_partials) {
  plan->num_partials = plan->num_probs = 0;
  for (Node& node : plan->nodes) {
    node.partial_offset = -1;
    node.prob_offset = 0;
    if (IsUpdatedAtOnce(node)) continue;
    const int64_t spans = node.Count(plan->span);
    if (node.fanout == 2 && spans <= max_partials - plan->num_partials) {
      node.partial_offset = plan->num_partials;
      plan->num_partials += spans;
    } else {
      node.prob_offset = plan->num_probs;
      plan->num_probs += node.population() * node.fanout;
    }
  }
}

bool ReadsVectors(const Plan& plan) {
  return plan.num_large == 0 && plan.num_probs == 0;
}

template <typename T>
StepMemory<T>::StepMemory(const Plan& plan, int64_t width,
                          const KernelTable<T>& table)
    : reserve_step_(table.reserve_step),
      examples_(plan.num_examples()),
      width_(width) {
  if (plan.num_large == 0) return;
  for (const Node& node : plan.nodes) {
    if (IsSmall(node) || !IsUpdatedAtOnce(node)) continue;
    probs_ = std::max(probs_, node.population() * node.fanout);
  }
}

template <typename T>
void StepMemory<T>::Reserve() const {
  if (examples_ == 0) return;
  reserve_step_(examples_, width_);
  auto& probs = ItemProbs<Accumulator<T>>();
  probs.resize(std::max<size_t>(probs.size(), probs_));
}

template <typename T>
void TrainStep(const Problem<T>& problem, const KernelTable<T>& table,
               const Parallel& parallel, const ForwardOutputs<T>& unscaled,
               const BackwardArguments<T>& arguments) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  ForwardOutputs<T> outputs = unscaled;
  outputs.dx_factors = arguments.loss_grads;
  auto span = [&](int64_t begin, int64_t end) {
    table.small_groups(problem, begin, end, outputs, &arguments);
  };
  auto group = [&](const Slice& slice) {
    const Node& node = plan.nodes[slice.node];
    if (!IsUpdatedAtOnce(node)) {
      table.forward_group(problem, slice, outputs);
      return;
    }
    auto& probs = ItemProbs<A>();
    probs.resize(
        std::max<size_t>(probs.size(), node.population() * node.fanout));
    ForwardOutputs<T> forward = outputs;
    BackwardArguments<T> backward = arguments;
    forward.probs = probs.data();
    backward.probs = probs.data();
    table.forward_group(problem, slice, forward);
    const Slice rows = {slice.node, 0, node.fanout, 0};
    table.backward_rows(problem, &rows, 1, backward);
  };
  const BackwardItems after = CutBackward(
      problem, table,
      [&](const Node& node) { return !ForwardUpdates(plan, node); });
  InForwardOrder(plan, table.forward_examples, parallel, span, group);
  RunBackward(after, problem, table, parallel, arguments);
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(Forward, T)          \
  TF_HSM_MAKE(Backward, T)         \
  TF_HSM_MAKE(LossInChunks, T)     \
  template class StepMemory<T>;    \
  TF_HSM_MAKE(TrainStep, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
