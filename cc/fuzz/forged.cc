// Labels and trees that may hold anything: MakePlan refuses them or makes a
// plan on which loss, gradients and a training step stay within their memory,
// whatever the parameters hold.

#include <numeric>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/loss_test_support.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/plan/node_parts.h"
#include "cc/core/plan/smoothing_prior.h"
#include "cc/core/testing/update_state.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {
namespace {

template <typename T>
void FuzzLoss(const Problem<T>& problem, Isa isa, int64_t batch,
              int64_t num_rows, const Parallel& parallel, Bytes* bytes) {
  const Plan& plan = *problem.plan;
  using A = Accumulator<T>;
  BatchMemory<T> memory(plan, batch, problem.width,
                        std::vector<A>(plan.num_examples(), A(0.5)));
  MakeSpecial(bytes, &memory.grads);
  const bool keeps = bytes->Coin(), has_backward = bytes->In(0, 3) > 0;
  const KernelTable<T>& table = KernelTableFor<T>(isa);
  const ForwardOutputs<T> outputs =
      memory.Outputs(bytes->Coin(), has_backward, keeps);
  Forward<T>(problem, table, parallel, outputs);
  if (!has_backward) return;
  BackwardArguments<T> arguments = memory.Arguments(outputs);
  Backward<T>(problem, table, parallel, arguments);
  // What makes them write past the cache is too large to fuzz.
  arguments.past_cache = true;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const int64_t end = plan.NumWeightRows(plan.nodes[i]);
    const Slice all = {static_cast<int64_t>(i), 0, end, 0};
    table.backward_rows(problem, &all, 1, arguments);
  }
  std::vector<int64_t> rows(plan.num_rows);
  TouchedRows(plan, rows.data());
  for (int64_t row : rows) Expect(row >= 0 && row < num_rows, "touched row");
}

template <typename T>
void FuzzStep(Problem<T> problem, Plan* plan, Isa isa, int64_t batch,
              std::vector<T>* w, std::vector<T>* b,
              std::vector<Accumulator<T>>* x, const Parallel& parallel,
              Bytes* bytes) {
  using A = Accumulator<T>;
  PlanTraining(plan, bytes->In(0, 3) == 0 ? bytes->In(0, 9) : INT64_MAX);
  BatchMemory<T> memory(*plan, batch, problem.width,
                        std::vector<A>(plan->num_examples(), A(0.5)));
  MakeSpecial(bytes, &memory.grads);
  const UpdateRule rule = DrawRule(bytes);
  State<T> slots = MakeState<T>(rule, b->size(), problem.width, *w, *b);
  Update<T> update = UpdateOf(rule, &slots);
  DrawNumbers(bytes, &update);
  update.weights = w->data();
  update.biases = problem.biases != nullptr ? b->data() : nullptr;
  for (int s = 0; s < NumSlots(rule); ++s) {
    MakeSpecial(bytes, &slots.w_slots[s]);
  }
  update.stochastic = bytes->Coin();
  update.seed = bytes->Any();
  const bool keeps = bytes->Coin();
  ForwardOutputs<T> outputs = memory.Outputs(bytes->Coin(), !keeps, keeps);
  std::vector<A> beside(x->size());
  // As where the inputs are a table's.
  std::vector<T> table(3 * problem.width, T{});
  VectorPlan vector_plan;
  Update<T> of_table;
  of_table.weights = table.data();
  VectorInputs<T> vectors;
  if (bytes->Coin()) {
    outputs.dx = beside.data();
    outputs.dx_is_sorted = true;
    if (ReadsVectors(*plan)) {
      std::vector<int64_t> rows(plan->num_examples());
      for (int64_t& row : rows) row = bytes->In(0, 2);
      PlanVectors(SortRows(rows.data(), rows.size()), nullptr, plan->span,
                  &vector_plan);
      vectors.plan = &vector_plan;
      vectors.table = table.data();
      vectors.sums = beside.data();
      vectors.update = &of_table;
      problem.x = nullptr;
      problem.vectors = &vectors;
      outputs.dx = nullptr;
    }
  }
  BackwardArguments<T> arguments = memory.Arguments(outputs);
  arguments.update = &update;
  TrainStep<T>(problem, KernelTableFor<T>(isa), parallel, outputs, arguments);
}

// Makes all rows labels, of inner nodes too, in depth-first order.
void LabelRows(OwnedTree* tree) {
  const std::vector<int64_t> order = tree->DepthFirst();
  const int64_t rows = order.size();
  tree->ranks.resize(rows);
  for (int64_t place = 0; place < rows; ++place) {
    tree->ranks[order[place]] = place;
  }
  tree->class_rows.resize(rows);
  std::iota(tree->class_rows.begin(), tree->class_rows.end(), 0);
}

}  // namespace

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    using T = decltype(zero);
    const Case c = DrawCase(bytes);
    OwnedTree owned = RandomForest(c, bytes);
    const int64_t rows = owned.view().num_weight_rows();
    std::vector<float> prior = DrawPrior(c, owned.view(), bytes);
    const bool labels_rows = bytes->In(0, 3) == 0;
    if (labels_rows) LabelRows(&owned);
    if (bytes->Coin()) Corrupt(&owned, bytes);
    for (int64_t left = bytes->In(0, 3); left > 1; --left) {
      owned.parents[(*bytes)() % owned.parents.size()] = -1;
    }
    for (int64_t left = bytes->In(0, 3); left > 0; --left) {
      owned.ranks[(*bytes)() % owned.ranks.size()] = bytes->Any();
    }
    TreeView tree = owned.view();
    // What an op takes it for, by the sizes of the arrays.
    if (labels_rows) tree.num_roots = tree.num_groups;
    std::vector<int64_t> labels(c.batch);
    for (int64_t& label : labels) label = (*bytes)() % tree.num_classes;
    for (int64_t left = bytes->In(0, 2); left > 0 && c.batch > 0; --left) {
      labels[(*bytes)() % c.batch] = bytes->Any();
    }
    std::vector<int64_t> ignored;
    for (int64_t left = bytes->In(0, 2); left > 0; --left) {
      ignored.push_back(bytes->Any());
    }
    Plan plan;
    if (!SortExamples(tree, labels.data(), c.batch, ignored, &plan).empty()) {
      return;
    }
    NodeParts parts(tree, labels.data(), &plan, bytes->In(1, 60));
    for (int64_t i = parts.count(); i-- > 0;) parts.Make(i);
    if (!parts.Finish(Reversed).empty()) return;
    plan.span = kBlockExamples * bytes->In(1, 3);

    std::vector<T> w = Draw<T>(rows * c.width, 32, bytes);
    std::vector<T> b = Draw<T>(rows, 64, bytes);
    std::vector<T> x = Draw<T>(c.batch * c.width, 64, bytes);
    MakeSpecial(bytes, &w);
    MakeSpecial(bytes, &b);
    MakeSpecial(bytes, &x);
    const Parallel parallel = bytes->Coin() ? Serial : Reversed;
    std::vector<Accumulator<T>> sorted = SortedInputs<T>(plan, x, c.width);
    Problem<T> problem = ProblemOf<T>(plan, c.width, w.data(),
                                      bytes->Coin() ? b.data() : nullptr,
                                      sorted.data(), {c.label_smoothing});
    if (c.has_prior) {
      MakeSpecial(bytes, &prior);
      CheckSmoothingPrior(plan, prior.data());
      problem.smoothing_prior = prior.data();
    }
    if (bytes->Coin()) {
      FuzzLoss<T>(problem, isa, c.batch, rows, parallel, bytes);
    } else {
      FuzzStep<T>(problem, &plan, isa, c.batch, &w, &b, &sorted, parallel,
                  bytes);
    }
  });
}

}  // namespace tf_hsm
