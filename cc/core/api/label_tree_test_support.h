// Losses, gradients and steps of label trees against the scalar reference: what
// their test and their fuzz target share.

#ifndef TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cc/core/api/label_tree.h"
#include "cc/core/api/loss_test_support.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"
#include "cc/core/testing/update_state.h"

namespace tf_hsm {

// A batch: labels [size, count], -1 for none.
template <typename T>
struct LabelSets {
  OwnedTree owned;
  int64_t size, width, count;
  std::vector<T> w, b, x;
  std::vector<int64_t> labels;
  std::vector<Accumulator<T>> grads;  // powers of two times 2, 3 and 4

  template <typename Rng>
  LabelSets(const Case& c, int64_t the_count, bool with_bias, double grad,
            Rng* rng)
      : owned(RandomTree(c.groups, c.most, c.inner, rng)),
        size(c.batch),
        width(c.width),
        count(the_count) {
    const TreeView tree = owned.view();
    w = Draw<T>(tree.num_rows * width, 32, rng);
    b = Draw<T>(with_bias ? tree.num_rows : 0, 64, rng);
    x = Draw<T>(size * width, 64, rng);
    // About half of them; the same label may stand there twice.
    for (int64_t i = 0; i < size * count; ++i) {
      labels.push_back((*rng)() % 2 ? -1 : (*rng)() % tree.num_classes);
    }
    for (int64_t i = 0; i < size; ++i) grads.push_back(grad * (2 + i % 3));
  }

  std::string MakePlan(const Parallel& parallel, LabelPlan* plan) const {
    return MakeLabelPlan(owned.view(), labels.data(), size, count, {-1},
                         parallel, plan);
  }

  std::vector<int64_t> LabelsOf(int64_t example) const {
    std::vector<int64_t> present;
    for (int64_t at = example * count; at < (example + 1) * count; ++at) {
      if (labels[at] >= 0) present.push_back(labels[at]);
    }
    return present;
  }
};

// With an update, makes it in the place of dw and db.
template <typename T>
Outputs<T> RunLabelTree(const LabelSets<T>& in, const LabelPlan& plan, Isa isa,
                        const Parallel& parallel,
                        const Update<T>* update = nullptr) {
  const auto packed = SortedInputs<T>(plan.plan, in.x, in.width);
  BatchMemory<T> memory(plan.plan, in.size, in.width,
                        InOrder(plan.plan, in.grads));
  const Problem<T> problem = ProblemOf<T>(
      plan.plan, in.width, update ? update->weights : in.w.data(),
      update ? update->biases : DataOrNull(in.b), packed.data(), {});
  const KernelTable<T>& table = KernelTableFor<T>(isa);
  LabelTreeForward<T>(
      plan, problem, table, parallel,
      {memory.loss.data(), memory.dx.data(), update ? in.grads.data() : nullptr,
       memory.probs.data()});
  BackwardArguments<T> backward =
      memory.Arguments(memory.Outputs(true, false, true));
  backward.update = update;
  Backward<T>(problem, table, parallel, backward);
  return {memory, plan.plan, in.owned.view().num_rows, in.width};
}

// ReferenceBatch of a label tree, which does not tell the touched rows.
template <typename T>
ReferenceSums ReferenceLabelTree(const LabelSets<T>& in, bool scales_dx) {
  const TreeView tree = in.owned.view();
  const std::vector<double> w = ToDoubles(in.w), b = ToDoubles(in.b);
  const std::vector<double> x = ToDoubles(in.x);
  ReferenceSums want(tree, in.width, in.size);
  for (int64_t i = 0; i < in.size; ++i) {
    const double* xi = x.data() + i * in.width;
    const std::vector<int64_t> labels = in.LabelsOf(i);
    want.loss[i] =
        ReferenceLabelLoss(tree, in.width, w.data(), DataOrNull(b), xi, labels,
                           scales_dx ? in.grads[i] : 1,
                           want.dx.data() + i * in.width, nullptr, nullptr);
    ReferenceLabelLoss(tree, in.width, w.data(), DataOrNull(b), xi, labels,
                       in.grads[i], nullptr, want.dw.data(), want.db.data());
  }
  return want;
}

// Losses and gradients; with a rule, a step in place, which has the loss before
// it, dx of the total, and the parameters that the rule makes of the gradient.
template <typename T, typename Rng>
void CheckLabelTree(const Case& c, int64_t count, Isa isa,
                    std::optional<UpdateRule> rule, bool with_bias,
                    const std::string& name, Rng* rng) {
  const bool steps = rule.has_value();
  const auto [store, sum] = RoundingOf<T>();
  const LabelSets<T> in(c, count, with_bias, steps ? 1.0 / 64 : 0.25, rng);
  const TreeView tree = in.owned.view();
  LabelPlan plan;
  const std::string error = in.MakePlan(Reversed, &plan);
  Expect(error.empty(), name + " plan: " + error);
  if (!error.empty()) return;
  Outputs<T> runs[2];
  State<T> states[2];
  for (int i = 0; i < 2; ++i) {
    Update<T> update;
    if (steps) {
      states[i] = MakeState<T>(*rule, tree.num_rows, c.width, in.w, in.b);
      update = UpdateOf(*rule, &states[i]);
    }
    runs[i] = RunLabelTree(in, plan, isa, i == 0 ? Serial : Reversed,
                           steps ? &update : nullptr);
  }
  const Outputs<T>& out = runs[0];
  Expect(SameOutputs(out, runs[1]) && SameState(states[0], states[1]),
         name + ": the order of items changes the bits");

  const ReferenceSums want = ReferenceLabelTree(in, /*scales_dx=*/steps);
  // A logit sums `width` products below 1/2.
  const double tolerance = sum * (4 * c.width + 64) * (steps ? 4 : 1);
  // A loss sums a term of every row, in another order than the reference.
  NearAll(out.loss, want.loss, tolerance + sum * tree.num_rows, name + " loss");
  // dx sums a row of every visit.
  NearAll(out.dx, want.dx, tolerance * tree.num_groups, name + " dx");
  if (steps) {
    State<double> after = MakeState<double>(*rule, tree.num_rows, c.width,
                                            ToDoubles(in.w), ToDoubles(in.b));
    ReferenceUpdateRows(out.touched, want.dw, want.db, c.width, *rule, &after);
    const double of_step = tolerance + store * (c.width + 8);
    return NearState(states[0], after, *rule, of_step, of_step, name);
  }
  const double total = tolerance * c.batch + store;
  NearAll(out.dw, want.dw, total, name + " dw");
  NearAll(out.db, want.db, total, name + " db");
  for (int64_t r = 0; r < tree.num_rows; ++r) {
    if (!out.touched[r]) Near(want.db[r], 0, 0, name + " untouched row");
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_
