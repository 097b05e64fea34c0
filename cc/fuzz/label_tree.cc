// Losses, gradients and steps of label trees: of valid trees, against the
// scalar reference; and of arrays, labels and parameters that hold anything,
// which MakeLabelPlan refuses, or which stay within their memory.

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/label_tree_test_support.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {
namespace {

// Numbers of any bits among the parameters, gradients and slots.
template <typename T>
void FuzzSpecial(LabelSets<T>* in, const LabelPlan& plan, Isa isa,
                 UpdateRule rule, Bytes* bytes) {
  MakeSpecial(bytes, &in->w);
  MakeSpecial(bytes, &in->b);
  MakeSpecial(bytes, &in->x);
  MakeSpecial(bytes, &in->grads);
  const Parallel parallel = bytes->Coin() ? Serial : Reversed;
  const int64_t rows = in->owned.view().num_rows;
  if (bytes->Coin()) {
    RunLabelTree(*in, plan, isa, parallel);
    std::vector<int64_t> touched(plan.plan.num_rows);
    TouchedRows(plan.plan, touched.data());
    for (int64_t row : touched) {
      Expect(row >= 0 && row < rows, "touched row");
    }
    return;
  }
  State<T> state = MakeState<T>(rule, rows, in->width, in->w, in->b);
  for (int s = 0; s < NumSlots(rule); ++s) {
    MakeSpecial(bytes, &state.w_slots[s]);
    MakeSpecial(bytes, &state.b_slots[s]);
  }
  Update<T> update = UpdateOf(rule, &state);
  DrawNumbers(bytes, &update);
  update.stochastic = bytes->Coin();
  update.seed = bytes->Any();
  RunLabelTree(*in, plan, isa, parallel, &update);
}

template <typename T>
void FuzzForged(const Case& c, int64_t count, Isa isa, UpdateRule rule,
                bool with_bias, Bytes* bytes) {
  LabelSets<T> in(c, count, with_bias, 0.25, bytes);
  if (bytes->Coin()) Corrupt(&in.owned, bytes);
  for (int64_t left = bytes->In(0, 3); left > 0; --left) {
    in.owned.ranks[(*bytes)() % in.owned.ranks.size()] = bytes->Any();
  }
  for (int64_t left = bytes->In(0, 2); left > 0 && !in.labels.empty(); --left) {
    in.labels[(*bytes)() % in.labels.size()] = bytes->Any();
  }
  std::vector<int64_t> ignored = {-1};
  for (int64_t left = bytes->In(0, 2); left > 0; --left) {
    ignored.push_back(bytes->Any());
  }
  LabelPlan plan;
  if (!MakeLabelPlan(in.owned.view(), in.labels.data(), in.size, count, ignored,
                     Serial, &plan)
           .empty()) {
    return;
  }
  FuzzSpecial(&in, plan, isa, rule, bytes);
}

}  // namespace

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    using T = decltype(zero);
    const Case c = DrawCase(bytes);
    const int64_t count = bytes->In(0, 7);
    const bool with_bias = bytes->Coin();
    const UpdateRule rule = DrawRule(bytes);
    const std::string name = IsaName(isa) + NameOf(c) + " " +
                             TraitsOf(rule).name +
                             " M=" + std::to_string(count);
    switch (bytes->In(0, 3)) {
      case 0:
        return CheckLabelTree<T>(c, count, isa, {}, with_bias, name, bytes);
      case 1:
        return CheckLabelTree<T>(c, count, isa, rule, with_bias, name, bytes);
      default:
        return FuzzForged<T>(c, count, isa, rule, with_bias, bytes);
    }
  });
}

}  // namespace tf_hsm
