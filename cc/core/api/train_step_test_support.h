// The training step in place against the scalar reference: what its test and
// its fuzz target share.

#ifndef TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

constexpr Hyperparameters kHyper = {0.125, 0.75, 0.875, 0.01};

inline int64_t SlotWidth(UpdateRule rule, int64_t width) {
  return TraitsOf(rule).slots_per_row ? 1 : width;
}

// All that a step changes. `A` is double for the reference.
template <typename T, typename A>
struct State {
  std::vector<T> w, b;
  std::vector<A> w_slots[kMaxSlots], b_slots[kMaxSlots];
  double decay = 0, bias_decay = 0;
};

template <typename T, typename A>
State<T, A> MakeState(UpdateRule rule, int64_t rows, int64_t width,
                      const std::vector<T>& w, const std::vector<T>& b) {
  State<T, A> state;
  state.w = w;
  state.b = b;
  for (int s = 0; s < NumSlots(rule); ++s) {
    state.w_slots[s].assign(rows * SlotWidth(rule, width), 0.5);
    state.b_slots[s].assign(b.size(), 0.5);
  }
  return state;
}

template <typename T>
bool SameState(const State<T, Accumulator<T>>& a,
               const State<T, Accumulator<T>>& b) {
  bool same = SameBits(a.w, b.w) && SameBits(a.b, b.b);
  for (int s = 0; s < kMaxSlots; ++s) {
    same = same && SameBits(a.w_slots[s], b.w_slots[s]) &&
           SameBits(a.b_slots[s], b.b_slots[s]);
  }
  return same;
}

// What a step by the rule changes: the state.
template <typename T>
Update<T> UpdateOf(UpdateRule rule, State<T, Accumulator<T>>* state) {
  Update<T> update;
  update.rule = rule;
  update.hyper = kHyper;
  update.decay = state->decay;
  update.bias_decay = state->bias_decay;
  update.weights = state->w.data();
  update.biases = state->b.empty() ? nullptr : state->b.data();
  for (int s = 0; s < NumSlots(rule); ++s) {
    update.weight_slots[s] = state->w_slots[s].data();
    update.bias_slots[s] = state->b_slots[s].data();
  }
  return update;
}

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
  State<T, A> state;
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
    std::vector<A> sorted(plan.num_examples() * Padded(width));
    PackInputs(plan.order.data(), plan.num_examples(), x.data(), width, Serial,
               sorted.data());
    std::vector<A> sorted_grads;
    for (int64_t i : plan.order) sorted_grads.push_back(grads[i]);
    std::vector<A> normalizers(2 * plan.num_passes, NAN);
    std::vector<A> probs(plan.num_probs, NAN);
    std::vector<A> partials(plan.num_partials * PartialStride(width), NAN);
    loss.assign(batch, 0);
    dx.assign(batch * width, AddsDx(plan, batch) ? 0 : NAN);
    Update<T> update = UpdateOf(rule, &state);
    update.stochastic = stochastic;
    update.seed = seed;
    Problem<T> problem = {&plan,          width,
                          update.weights, update.biases,
                          sorted.data(),  static_cast<A>(options.smoothing),
                          options.prior};
    problem.logit_soft_cap = options.soft_cap;
    problem.z_loss = options.z_loss;
    ForwardOutputs<T> outputs;
    outputs.loss = loss.data();
    outputs.dx = dx.data();
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
    if (way.keeps_probs) {
      outputs.probs = probs.data();
    } else {
      outputs.normalizers = normalizers.data();
    }
    BackwardArguments<T> arguments;
    arguments.loss_grads = sorted_grads.data();
    arguments.normalizers = outputs.normalizers;
    arguments.probs = outputs.probs;
    arguments.update = &update;
    arguments.partials = partials.data();
    if (way.in_chunks && plan.nodes.size() == 1 && plan.num_large == 1) {
      constexpr int64_t kChunk = 23;
      const int64_t fanout = plan.nodes[0].fanout;
      std::vector<A> chunk(kChunk * fanout, NAN), dw(fanout * width, NAN);
      std::vector<A> db(fanout, NAN);
      outputs.dx_factors = sorted_grads.data();
      LossInChunks<T>(problem, KernelTableFor<T>(isa), parallel, outputs,
                      arguments, kChunk, chunk.data(), {dw.data(), db.data()});
    } else {
      TrainStep<T>(problem, KernelTableFor<T>(isa), parallel, outputs,
                   arguments);
    }
    for (int64_t at = 0; way.sorts_dx && at < plan.num_examples(); ++at) {
      const int64_t place =
          problem.vectors == nullptr ? at : vector_plan.vectors[at].sum;
      std::copy_n(beside.data() + place * Padded(width), width,
                  dx.data() + plan.order[at] * width);
    }
    Expect(SameBits(table, x), "a rate of zero changes the table");
  }
};

// Applies the rule to the touched rows, in double: dw [rows, width], db [rows].
inline void ReferenceUpdateRows(const std::vector<bool>& touched,
                                const std::vector<double>& dw,
                                const std::vector<double>& db, int64_t width,
                                UpdateRule rule, State<double, double>* state) {
  for (int64_t r = 0; r < static_cast<int64_t>(touched.size()); ++r) {
    if (!touched[r]) continue;
    double mean_square = 0;
    for (int64_t d = 0; d < width; ++d) {
      mean_square += dw[r * width + d] * dw[r * width + d] / width;
    }
    double slots[kMaxSlots];
    const int64_t slot_width = SlotWidth(rule, width);
    for (int64_t d = 0; d < width; ++d) {
      const int64_t at = r * slot_width + (slot_width == 1 ? 0 : d);
      for (int s = 0; s < NumSlots(rule); ++s) slots[s] = state->w_slots[s][at];
      double& value = state->w[r * width + d];
      value = ReferenceUpdate(rule, kHyper, dw[r * width + d], mean_square,
                              value, slots, state->decay);
      // A slot of a whole row moves once.
      if (slot_width == 1 && d + 1 < width) continue;
      for (int s = 0; s < NumSlots(rule); ++s) state->w_slots[s][at] = slots[s];
    }
    if (state->b.empty()) continue;
    for (int s = 0; s < NumSlots(rule); ++s) slots[s] = state->b_slots[s][r];
    state->b[r] = ReferenceUpdate(rule, kHyper, db[r], db[r] * db[r],
                                  state->b[r], slots, state->bias_decay);
    for (int s = 0; s < NumSlots(rule); ++s) state->b_slots[s][r] = slots[s];
  }
}

// A step in double, one example and one number after another.
inline void ReferenceStep(const TreeView& tree,
                          const std::vector<int64_t>& labels,
                          const std::vector<double>& x, int64_t width,
                          const std::vector<double>& grads, UpdateRule rule,
                          Run<double>* run) {
  const int64_t batch = labels.size();
  State<double, double>& state = run->state;
  std::vector<double> dw(state.w.size()), db(tree.num_weight_rows());
  const double* b = state.b.empty() ? nullptr : state.b.data();
  std::vector<bool> touched(tree.num_weight_rows());
  run->loss.assign(batch, 0);
  run->dx.assign(batch * width, 0);
  for (int64_t i = 0; i < batch; ++i) {
    std::vector<double> dx(width);
    run->loss[i] = ReferenceLoss(tree, width, state.w.data(), b,
                                 x.data() + i * width, labels[i], grads[i],
                                 nullptr, dw.data(), db.data(), run->options);
    ReferenceLoss(tree, width, state.w.data(), b, x.data() + i * width,
                  labels[i], grads[i], run->dx.data() + i * width, nullptr,
                  nullptr, run->options);
    for (int64_t row = tree.class_rows[labels[i]]; row >= 0;) {
      const int64_t group = tree.row_groups[row];
      for (int64_t r = tree.group_offsets[group];
           r < tree.group_offsets[group + 1]; ++r) {
        touched[tree.weight_row(r)] = true;
      }
      row = tree.group_parents[group];
    }
  }
  ReferenceUpdateRows(touched, dw, db, width, rule, &state);
}

template <typename T, typename A>
void NearAll(const std::vector<T>& got, const std::vector<A>& want,
             double tolerance, const std::string& what) {
  Expect(got.size() == want.size(), what + " size");
  for (size_t i = 0; i < want.size(); ++i) {
    Near(ToDouble(got[i]), want[i], tolerance, what);
  }
}

template <typename T>
void NearState(const State<T, Accumulator<T>>& got,
               const State<double, double>& want, UpdateRule rule,
               double tolerance, const std::string& name) {
  NearAll(got.w, want.w, tolerance, name + " weights");
  NearAll(got.b, want.b, tolerance, name + " biases");
  for (int s = 0; s < NumSlots(rule); ++s) {
    NearAll(got.w_slots[s], want.w_slots[s], tolerance, name + " slots");
    NearAll(got.b_slots[s], want.b_slots[s], tolerance, name + " bias slots");
  }
}

// `store` is the rounding of a stored T, `sum` that of its accumulator.
template <typename T, typename Rng>
void CheckTrainStep(const Case& c, Isa isa, double store, double sum,
                    UpdateRule rule, bool with_bias, const std::string& name,
                    Rng* rng, double decay = 0) {
  using A = Accumulator<T>;
  const OwnedTree owned = RandomForest(c, rng);
  const TreeView tree = owned.view();
  const int64_t rows = tree.num_weight_rows();
  const std::vector<T> w = Draw<T>(rows * c.width, 32, rng);
  const std::vector<T> b = Draw<T>(with_bias ? rows : 0, 64, rng);
  constexpr int kNumWays = sizeof(kWays) / sizeof(kWays[0]);
  const std::vector<float> prior = DrawPrior(c, tree, rng);
  const ReferenceOptions options = {c.label_smoothing, PriorOrNull(prior),
                                    c.soft_cap, c.z_loss};
  Run<T> runs[kNumWays], reversed[kNumWays];
  for (int i = 0; i < kNumWays; ++i) {
    runs[i].state = MakeState<T, A>(rule, rows, c.width, w, b);
    runs[i].state.decay = decay;
    runs[i].state.bias_decay = decay / 2;
    runs[i].options = options;
    reversed[i] = runs[i];
  }
  Run<double> want;
  want.state = MakeState<double, double>(rule, rows, c.width, ToDoubles(w),
                                         ToDoubles(b));
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
      NearState(run.state, want.state, rule, after, way);
    }
    tolerance = after;
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_TRAIN_STEP_TEST_SUPPORT_H_
