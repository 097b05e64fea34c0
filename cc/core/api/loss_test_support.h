// Loss and gradients against the scalar reference: what their test and their
// fuzz target share.

#ifndef TF_HSM_CC_CORE_API_LOSS_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_LOSS_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/plan/smoothing_prior.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

template <typename T>
struct Outputs {
  using A = Accumulator<T>;
  std::vector<A> loss, dx, normalizers, probs;
  std::vector<T> dw, db;
};

template <typename T>
Outputs<T> Run(const Problem<T>& problem, Isa isa, const Parallel& parallel,
               int64_t batch, const std::vector<Accumulator<T>>& grads,
               bool keep) {
  const Plan& plan = *problem.plan;
  Outputs<T> out;
  out.loss.assign(batch, 0);
  out.dx.assign(batch * problem.width, AddsDx(plan, batch) ? 0 : NAN);
  out.normalizers.assign(2 * plan.num_passes, NAN);
  out.probs.assign(keep ? plan.num_probs : 0, NAN);
  Forward<T>(problem, KernelTableFor<T>(isa), parallel,
             {out.loss.data(), out.dx.data(), nullptr, out.normalizers.data(),
              keep ? out.probs.data() : nullptr});
  out.dw.resize(plan.num_rows * problem.width);
  out.db.resize(plan.num_rows);
  Backward<T>(
      problem, KernelTableFor<T>(isa), parallel,
      {grads.data(), out.normalizers.data(), keep ? out.probs.data() : nullptr,
       nullptr, out.dw.data(), out.db.data()});
  return out;
}

// `store` is the rounding of a stored T, `sum` that of its accumulator.
// X is the type of the inputs.
template <typename T, typename X = T, typename Rng>
void CheckLoss(const Case& c, Isa isa, double store, double sum, bool with_bias,
               const std::string& name, Rng* rng) {
  using A = Accumulator<T>;
  const OwnedTree owned = RandomForest(c, rng);
  const TreeView tree = owned.view();
  const std::vector<T> w = Draw<T>(tree.num_weight_rows() * c.width, 32, rng);
  const std::vector<T> b = Draw<T>(tree.num_weight_rows(), 64, rng);
  std::vector<X> x = Draw<X>(c.batch * c.width, 64, rng);
  if constexpr (sizeof(X) > sizeof(T)) {
    for (X& value : x) value /= 3;  // all bits of it count
  }
  std::vector<int64_t> labels(c.batch);
  for (int64_t& label : labels) label = (*rng)() % (tree.num_classes + 1) - 1;

  const std::vector<float> prior = DrawPrior(c, tree, rng);

  Plan plan;
  const std::string error = MakePlan(tree, labels.data(), c.batch, {-1}, &plan);
  Expect(error.empty(), name + " plan: " + error);
  if (!error.empty()) return;
  std::vector<A> sorted(plan.num_examples() * Padded(c.width));
  PackInputs(plan.order.data(), plan.num_examples(), x.data(), c.width, Serial,
             sorted.data());
  std::vector<A> grads(plan.num_examples());
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = 0.5 + 0.25 * (i % 3);
  if (c.has_prior) {
    Expect(CheckSmoothingPrior(plan, prior.data()).empty(), name + " prior");
  }
  Problem<T> problem = {&plan,
                        c.width,
                        w.data(),
                        with_bias ? b.data() : nullptr,
                        sorted.data(),
                        static_cast<A>(c.label_smoothing),
                        PriorOrNull(prior)};
  problem.logit_soft_cap = c.soft_cap;
  problem.z_loss = c.z_loss;
  const ReferenceOptions options = {c.label_smoothing, PriorOrNull(prior),
                                    c.soft_cap, c.z_loss};
  const Outputs<T> out = Run<T>(problem, isa, Serial, c.batch, grads, true);
  const Outputs<T> again = Run<T>(problem, isa, Reversed, c.batch, grads, true);
  const Outputs<T> remade = Run<T>(problem, isa, Serial, c.batch, grads, false);
  Expect(SameBits(out.loss, again.loss) && SameBits(out.dx, again.dx) &&
             SameBits(out.dw, again.dw) && SameBits(out.db, again.db) &&
             SameBits(out.loss, remade.loss) && SameBits(out.dx, remade.dx),
         name + ": the order of items changes the bits");

  // In chunks that are no whole work items.
  const bool in_chunks = plan.nodes.size() == 1 && plan.num_large == 1;
  std::vector<A> dw_sums(in_chunks ? w.size() : 0), db_sums(dw_sums.size());
  if (in_chunks) {
    Outputs<T> parts = out;
    std::fill(parts.loss.begin(), parts.loss.end(), 0);
    std::fill(parts.dx.begin(), parts.dx.end(), 0);
    std::vector<A> probs(19 * plan.nodes[0].fanout, NAN);
    ForwardOutputs<T> outputs = {parts.loss.data(), parts.dx.data(), nullptr,
                                 parts.normalizers.data()};
    BackwardArguments<T> arguments;
    arguments.loss_grads = grads.data();
    LossInChunks<T>(problem, KernelTableFor<T>(isa), Reversed, outputs,
                    arguments, 19, probs.data(),
                    {dw_sums.data(), db_sums.data()});
    // Tiles are for spans of 32 examples and more, vectors for shorter ones.
    const double ulps = isa == Isa::kAmx ? sum * (4 * c.width + 64) : 0;
    for (int i = 0; i < c.batch; ++i) {
      Near(parts.loss[i], out.loss[i], ulps, name + " loss in chunks");
    }
    for (size_t i = 0; i < out.dx.size(); ++i) {
      Near(parts.dx[i], out.dx[i], ulps, name + " dx in chunks");
    }
  }

  const std::vector<double> w64 = ToDoubles(w), b64 = ToDoubles(b);
  const std::vector<double> x64 = ToDoubles(x);
  std::vector<double> dw(w.size()), db(b.size()), dx(x.size());
  std::vector<double> loss(c.batch);
  for (int64_t at = 0; at < plan.num_examples(); ++at) {
    const int64_t i = plan.order[at];
    std::vector<double> unit(c.width);
    loss[i] = ReferenceLoss(tree, c.width, w64.data(),
                            with_bias ? b64.data() : nullptr,
                            x64.data() + i * c.width, labels[i], grads[at],
                            nullptr, dw.data(), db.data(), options);
    ReferenceLoss(tree, c.width, w64.data(), with_bias ? b64.data() : nullptr,
                  x64.data() + i * c.width, labels[i], 1,
                  dx.data() + i * c.width, nullptr, nullptr, options);
  }
  // A logit sums `width` products below 1/2; a path adds `depth` terms.
  int64_t depth = 1;
  for (const Node& node : plan.nodes) depth = std::max(depth, node.depth + 1);
  const double tolerance = sum * (4 * c.width + 64) * depth;
  for (int i = 0; i < c.batch; ++i) {
    Near(out.loss[i], loss[i], tolerance, name + " loss");
  }
  for (size_t i = 0; i < dx.size(); ++i) {
    Near(out.dx[i], dx[i], tolerance, name + " dx");
  }
  std::vector<int64_t> rows(plan.num_rows);
  TouchedRows(plan, rows.data());
  std::vector<bool> touched(tree.num_weight_rows());
  const double total = tolerance * c.batch + store;
  for (int64_t i = 0; i < plan.num_rows; ++i) {
    Expect(i == 0 || rows[i] > rows[i - 1], name + " rows ascend");
    touched[rows[i]] = true;
    Near(ToDouble(out.db[i]), db[rows[i]], total, name + " db");
    for (int d = 0; d < c.width; ++d) {
      const double want = dw[rows[i] * c.width + d];
      Near(ToDouble(out.dw[i * c.width + d]), want, total, name + " dw");
      Near(ToDouble(remade.dw[i * c.width + d]), want, total,
           name + " remade dw");
      if (!in_chunks) continue;
      Near(dw_sums[rows[i] * c.width + d], want, total, name + " dw in chunks");
    }
    if (in_chunks) {
      Near(db_sums[rows[i]], db[rows[i]], total, name + " db in chunks");
    }
  }
  for (int64_t r = 0; r < tree.num_weight_rows(); ++r) {
    if (!touched[r]) Near(db[r], 0, 0, name + " untouched row");
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LOSS_TEST_SUPPORT_H_
