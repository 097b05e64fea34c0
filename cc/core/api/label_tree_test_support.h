// Losses, gradients and steps of label trees against the scalar reference: what
// their test and their fuzz target share.

#ifndef TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/label_tree.h"
#include "cc/core/api/loss.h"
#include "cc/core/api/train_step_test_support.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

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

  std::string MakePlan(LabelPlan* plan) const {
    return MakeLabelPlan(owned.view(), labels.data(), size, count, {-1}, plan);
  }

  std::vector<int64_t> LabelsOf(int64_t example) const {
    std::vector<int64_t> present;
    for (int64_t at = example * count; at < (example + 1) * count; ++at) {
      if (labels[at] >= 0) present.push_back(labels[at]);
    }
    return present;
  }
};

template <typename T>
struct LabelResults {
  std::vector<Accumulator<T>> loss, dx;
  std::vector<T> dw, db;
};

// With an update, makes it in the place of dw and db.
template <typename T>
LabelResults<T> RunLabelTree(const LabelSets<T>& in, const LabelPlan& plan,
                             Isa isa, const Parallel& parallel,
                             const Update<T>* update = nullptr) {
  using A = Accumulator<T>;
  std::vector<A> packed(plan.num_visits() * Padded(in.width));
  PackInputs(plan.plan.order.data(), plan.num_visits(), in.x.data(), in.width,
             Serial, packed.data());
  std::vector<A> dz(plan.plan.num_probs, NAN), grads;
  for (int64_t example : plan.plan.order) grads.push_back(in.grads[example]);
  LabelResults<T> out;
  out.loss.assign(in.size, NAN);
  out.dx.assign(in.size * in.width, NAN);
  Problem<T> problem = {&plan.plan, in.width, in.w.data(),
                        in.b.empty() ? nullptr : in.b.data(), packed.data()};
  BackwardArguments<T> backward;
  if (update != nullptr) {
    problem.weights = update->weights;
    problem.biases = update->biases;
  } else {
    out.dw.resize(plan.plan.num_rows * in.width);
    out.db.resize(plan.plan.num_rows);
    backward.dw = out.dw.data();
    backward.db = out.db.data();
  }
  const auto& table = KernelTableFor<T>(isa);
  LabelTreeForward<T>(plan, problem, table, parallel,
                      {out.loss.data(), out.dx.data(),
                       update ? in.grads.data() : nullptr, dz.data()});
  backward.loss_grads = grads.data();
  backward.probs = dz.data();
  backward.update = update;
  Backward<T>(problem, table, parallel, backward);
  return out;
}

// The reference: the losses, and the gradients of their sum (dx, of which each
// is multiplied by its grad if `scales_dx`) and of that of grad * loss.
struct LabelReference {
  std::vector<double> loss, dx, dw, db;
};

template <typename T>
LabelReference ReferenceLabelTree(const LabelSets<T>& in, bool scales_dx) {
  const TreeView tree = in.owned.view();
  const std::vector<double> w = ToDoubles(in.w), b = ToDoubles(in.b);
  const std::vector<double> x = ToDoubles(in.x);
  const double* biases = b.empty() ? nullptr : b.data();
  LabelReference want;
  want.dx.resize(x.size());
  want.dw.resize(w.size());
  want.db.resize(tree.num_rows);
  for (int64_t i = 0; i < in.size; ++i) {
    const double* xi = x.data() + i * in.width;
    const std::vector<int64_t> labels = in.LabelsOf(i);
    want.loss.push_back(ReferenceLabelLoss(tree, in.width, w.data(), biases, xi,
                                           labels, scales_dx ? in.grads[i] : 1,
                                           want.dx.data() + i * in.width,
                                           nullptr, nullptr));
    ReferenceLabelLoss(tree, in.width, w.data(), biases, xi, labels,
                       in.grads[i], nullptr, want.dw.data(), want.db.data());
  }
  return want;
}

// The touched rows of the weights, which must ascend.
inline std::vector<bool> TouchedBy(const LabelPlan& plan, const TreeView& tree,
                                   const std::string& name,
                                   std::vector<int64_t>* rows) {
  rows->resize(plan.plan.num_rows);
  TouchedRows(plan.plan, rows->data());
  std::vector<bool> touched(tree.num_rows);
  for (size_t i = 0; i < rows->size(); ++i) {
    Expect(i == 0 || (*rows)[i] > (*rows)[i - 1], name + " rows ascend");
    touched[(*rows)[i]] = true;
  }
  return touched;
}

// `store` is the rounding of a stored T, `sum` that of its accumulator.
template <typename T, typename Rng>
void CheckLabelTree(const Case& c, int64_t count, Isa isa, double store,
                    double sum, bool with_bias, const std::string& name,
                    Rng* rng) {
  const LabelSets<T> in(c, count, with_bias, 0.25, rng);
  const TreeView tree = in.owned.view();
  LabelPlan plan;
  const std::string error = in.MakePlan(&plan);
  Expect(error.empty(), name + " plan: " + error);
  if (!error.empty()) return;
  const LabelResults<T> out = RunLabelTree(in, plan, isa, Serial);
  const LabelResults<T> again = RunLabelTree(in, plan, isa, Reversed);
  Expect(SameBits(out.loss, again.loss) && SameBits(out.dx, again.dx) &&
             SameBits(out.dw, again.dw) && SameBits(out.db, again.db),
         name + ": the order of items changes the bits");

  const LabelReference want = ReferenceLabelTree(in, /*scales_dx=*/false);
  // A logit sums `width` products below 1/2.
  const double tolerance = sum * (4 * c.width + 64);
  // A loss sums a term of every row, in another order than the reference.
  const double of_rows = sum * tree.num_rows;
  NearAll(out.loss, want.loss, tolerance + of_rows, name + " loss");
  // dx sums a row of every visit.
  NearAll(out.dx, want.dx, tolerance * tree.num_groups, name + " dx");
  std::vector<int64_t> rows;
  const std::vector<bool> touched = TouchedBy(plan, tree, name, &rows);
  const double total = tolerance * c.batch + store;
  for (size_t i = 0; i < rows.size(); ++i) {
    Near(ToDouble(out.db[i]), want.db[rows[i]], total, name + " db");
    for (int d = 0; d < c.width; ++d) {
      Near(ToDouble(out.dw[i * c.width + d]), want.dw[rows[i] * c.width + d],
           total, name + " dw");
    }
  }
  for (int64_t r = 0; r < tree.num_rows; ++r) {
    if (!touched[r]) Near(want.db[r], 0, 0, name + " untouched row");
  }
}

// A step in place has the loss before it, dx of the total, and the parameters
// that the rule makes of the gradient.
template <typename T, typename Rng>
void CheckLabelStep(const Case& c, int64_t count, Isa isa, double store,
                    double sum, UpdateRule rule, bool with_bias,
                    const std::string& name, Rng* rng) {
  using A = Accumulator<T>;
  const LabelSets<T> in(c, count, with_bias, 1.0 / 64, rng);
  const TreeView tree = in.owned.view();
  LabelPlan plan;
  const std::string error = in.MakePlan(&plan);
  Expect(error.empty(), name + " plan: " + error);
  if (!error.empty()) return;
  State<T, A> state = MakeState<T, A>(rule, tree.num_rows, c.width, in.w, in.b);
  State<T, A> reversed = state;
  auto step = [&](const Parallel& parallel, State<T, A>* of) {
    const Update<T> update = UpdateOf(rule, of);
    return RunLabelTree(in, plan, isa, parallel, &update);
  };
  const LabelResults<T> out = step(Serial, &state);
  const LabelResults<T> again = step(Reversed, &reversed);
  Expect(SameBits(out.loss, again.loss) && SameBits(out.dx, again.dx) &&
             SameState(state, reversed),
         name + ": the order of items changes the bits");

  LabelReference want = ReferenceLabelTree(in, /*scales_dx=*/true);
  State<double, double> after = MakeState<double, double>(
      rule, tree.num_rows, c.width, ToDoubles(in.w), ToDoubles(in.b));
  std::vector<int64_t> rows;
  ReferenceUpdateRows(TouchedBy(plan, tree, name, &rows), want.dw, want.db,
                      c.width, rule, &after);
  const double tolerance = sum * (16 * c.width + 256);
  const double of_rows = sum * tree.num_rows;
  NearAll(out.loss, want.loss, tolerance + of_rows, name + " loss");
  NearAll(out.dx, want.dx, tolerance * tree.num_groups, name + " dx");
  NearState(state, after, rule, tolerance + store * (c.width + 8), name);
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LABEL_TREE_TEST_SUPPORT_H_
