// The training step in place against the scalar reference: what its test and
// its fuzz target share.

#ifndef TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/api/loss_test_support.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"
#include "cc/core/testing/update_state.h"

namespace tf_hsm {

// How a step is made; every way must give the same numbers.
struct Way {
  int64_t max_partials;
  bool keeps_probs;
  bool sorts_dx;
  bool reads_vectors = false;  // from a table, if it may
  bool in_chunks = false;      // if it may
};
constexpr Way kWays[] = {{INT64_MAX, true, false},
                         {INT64_MAX, false, true},
                         {0, true, false},
                         {0, false, false},
                         {7, true, true},
                         {INT64_MAX, true, true, true},
                         {7, true, false, false, true}};

template <typename T>
struct Run {
  using A = Accumulator<T>;
  std::vector<A> loss, dx;
  State<T> state;
  ReferenceOptions options;

  void Step(const TreeView& tree, const std::vector<int64_t>& labels,
            const std::vector<T>& x, int64_t width, const std::vector<A>& grads,
            UpdateRule rule, bool stochastic, uint64_t seed, Isa isa,
            const Way& way, const Parallel& parallel) {
    const int64_t batch = labels.size();
    Plan plan;
    const std::string error = MakePlan(tree, labels.data(), batch, {}, &plan);
    Expect(error.empty(), error);
    PlanTraining(&plan, way.max_partials);
    const std::vector<A> sorted = SortedInputs<T>(plan, x, width);
    BatchMemory<T> memory(plan, batch, width, InOrder(plan, grads));
    Update<T> update = UpdateOf(rule, &state);
    update.stochastic = stochastic;
    update.seed = seed;
    Problem<T> problem = ProblemOf<T>(plan, width, update.weights,
                                      update.biases, sorted.data(), options);
    ForwardOutputs<T> outputs =
        memory.Outputs(true, !way.keeps_probs, way.keeps_probs);
    std::vector<A> beside(sorted.size(),
                          AddsDx(plan, plan.num_examples()) ? 0 : NAN);
    if (way.sorts_dx) {
      outputs.dx = beside.data();
      outputs.dx_is_sorted = true;
    }
    // Each example has a vector of its own, and so has a sum of its dx, which
    // updates it at a rate of zero.
    std::vector<T> table = x;
    VectorPlan vector_plan;
    Update<T> of_table;
    of_table.weights = table.data();
    VectorInputs<T> vectors;
    if (way.reads_vectors && ReadsVectors(plan)) {
      PlanVectors(SortRows(plan.order.data(), plan.num_examples()), nullptr,
                  plan.span, &vector_plan);
      vectors.plan = &vector_plan;
      vectors.table = table.data();
      vectors.sums = beside.data();
      vectors.update = &of_table;
      problem.x = nullptr;
      problem.vectors = &vectors;
      outputs.dx = nullptr;
    }
    BackwardArguments<T> arguments = memory.Arguments(outputs);
    arguments.update = &update;
    if (way.in_chunks && plan.nodes.size() == 1 && plan.num_large == 1) {
      constexpr int64_t kChunk = 23;
      const int64_t fanout = plan.nodes[0].fanout;
      std::vector<A> chunk(kChunk * fanout, NAN), dw(fanout * width, NAN);
      std::vector<A> db(fanout, NAN);
      outputs.dx_factors = arguments.loss_grads;
      LossInChunks<T>(problem, KernelTableFor<T>(isa), parallel, outputs,
                      arguments, kChunk, chunk.data(), {dw.data(), db.data()});
    } else {
      TrainStep<T>(problem, KernelTableFor<T>(isa), parallel, outputs,
                   arguments);
    }
    loss = memory.loss;
    dx = memory.dx;
    for (int64_t at = 0; way.sorts_dx && at < plan.num_examples(); ++at) {
      const int64_t place =
          problem.vectors == nullptr ? at : vector_plan.vectors[at].sum;
      std::copy_n(beside.data() + place * Padded(width), width,
                  dx.data() + plan.order[at] * width);
    }
    Expect(SameBits(table, x), "a rate of zero changes the table");
  }
};

// A step in double, one example and one number after another.
inline void ReferenceStep(const TreeView& tree,
                          const std::vector<int64_t>& labels,
                          const std::vector<double>& x, int64_t width,
                          const std::vector<double>& grads, UpdateRule rule,
                          Run<double>* run) {
  State<double>& state = run->state;
  const ReferenceSums sums =
      ReferenceBatch(tree, width, state.w, state.b, x, labels, grads,
                     /*scales_dx=*/true, run->options);
  run->loss = sums.loss;
  run->dx = sums.dx;
  ReferenceUpdateRows(sums.touched, sums.dw, sums.db, width, rule, &state);
}

template <typename T, typename Rng>
void CheckTrainStep(const Case& c, Isa isa, UpdateRule rule, bool with_bias,
                    const std::string& name, Rng* rng, double decay = 0) {
  using A = Accumulator<T>;
  const auto [store, sum] = RoundingOf<T>();
  const OwnedTree owned = RandomForest(c, rng);
  const TreeView tree = owned.view();
  const int64_t rows = tree.num_weight_rows();
  const std::vector<T> w = Draw<T>(rows * c.width, 32, rng);
  const std::vector<T> b = Draw<T>(with_bias ? rows : 0, 64, rng);
  constexpr int kNumWays = sizeof(kWays) / sizeof(kWays[0]);
  const std::vector<float> prior = DrawPrior(c, tree, rng);
  const ReferenceOptions options = {c.label_smoothing, DataOrNull(prior),
                                    c.soft_cap, c.z_loss};
  Run<T> runs[kNumWays], reversed[kNumWays];
  for (int i = 0; i < kNumWays; ++i) {
    runs[i].state = MakeState<T>(rule, rows, c.width, w, b);
    runs[i].state.decay = decay;
    runs[i].state.bias_decay = decay / 2;
    runs[i].options = options;
    reversed[i] = runs[i];
  }
  Run<double> want;
  want.state =
      MakeState<double>(rule, rows, c.width, ToDoubles(w), ToDoubles(b));
  want.state.decay = decay;
  want.state.bias_decay = decay / 2;
  want.options = options;
  double tolerance = sum * (16 * c.width + 256);
  for (int step = 0; step < 2; ++step) {
    const std::vector<T> x = Draw<T>(c.batch * c.width, 64, rng);
    std::vector<int64_t> labels(c.batch);
    for (int64_t& label : labels) label = (*rng)() % tree.num_classes;
    std::vector<A> grads(c.batch);
    for (int i = 0; i < c.batch; ++i) grads[i] = (1 + i % 3) / 64.0;
    ReferenceStep(tree, labels, ToDoubles(x), c.width, ToDoubles(grads), rule,
                  &want);
    // The next step starts from rounded weights.
    const double after = tolerance + store * (c.width + 8);
    for (int i = 0; i < kNumWays; ++i) {
      Run<T>&run = runs[i], &other = reversed[i];
      const std::string way = name + " way " + std::to_string(i);
      run.Step(tree, labels, x, c.width, grads, rule, false, 0, isa, kWays[i],
               Serial);
      other.Step(tree, labels, x, c.width, grads, rule, false, 0, isa, kWays[i],
                 Reversed);
      Expect(SameBits(run.loss, other.loss) && SameBits(run.dx, other.dx) &&
                 SameState(run.state, other.state),
             way + ": the order of items changes the bits");
      NearAll(run.loss, want.loss, tolerance, way + " loss");
      NearAll(run.dx, want.dx, tolerance, way + " dx");
      NearState(run.state, want.state, rule, after, after, way);
    }
    tolerance = after;
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_
