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

// dw and db have all rows, with zeros where a row is not touched.
template <typename T>
struct Outputs {
  using A = Accumulator<T>;
  std::vector<A> loss, dx, normalizers;
  std::vector<T> dw, db;
  std::vector<bool> touched;
};

template <typename T>
bool SameOutputs(const Outputs<T>& a, const Outputs<T>& b) {
  return SameBits(a.loss, b.loss) && SameBits(a.dx, b.dx) &&
         SameBits(a.dw, b.dw) && SameBits(a.db, b.db) && a.touched == b.touched;
}

// A batch of labels, inputs of the type X and parameters, and its plan.
template <typename T, typename X = T>
class LossBatch {
 public:
  using A = Accumulator<T>;

  // Biases may be empty; negative labels are ignored; `grads` are by example.
  LossBatch(const TreeView& tree, int64_t width, const std::vector<T>& w,
            const std::vector<T>& b, const std::vector<X>& x,
            const std::vector<int64_t>& labels, const std::vector<A>& grads,
            const ReferenceOptions& options = {})
      : tree_(tree),
        w_(w),
        b_(b),
        x_(x),
        labels_(labels),
        grads_(grads),
        options_(options) {
    const std::string error =
        MakePlan(tree, labels.data(), labels.size(), {-1}, &plan_);
    Expect(error.empty(), "plan: " + error);
    sorted_.resize(plan_.num_examples() * Padded(width));
    PackInputs(plan_.order.data(), plan_.num_examples(), x.data(), width,
               Serial, sorted_.data());
    for (int64_t i : plan_.order) sorted_grads_.push_back(grads[i]);
    problem_ = {&plan_,         width,
                w_.data(),      DataOrNull(b_),
                sorted_.data(), static_cast<A>(options.smoothing),
                options.prior};
    problem_.logit_soft_cap = options.soft_cap;
    problem_.z_loss = options.z_loss;
  }
  LossBatch(const LossBatch&) = delete;

  const Plan& plan() const { return plan_; }
  const Problem<T>& problem() const { return problem_; }

  // With `keep`, the backward has the probabilities; else it makes them again.
  Outputs<T> Run(Isa isa, const Parallel& parallel, bool keep) const {
    const int64_t batch = labels_.size(), width = problem_.width;
    Outputs<T> out;
    out.loss.assign(batch, 0);
    out.dx.assign(batch * width, AddsDx(plan_, batch) ? 0 : NAN);
    out.normalizers.assign(2 * plan_.num_passes, NAN);
    std::vector<A> probs(plan_.num_probs, NAN);
    A* kept = keep ? probs.data() : nullptr;
    Forward<T>(problem_, KernelTableFor<T>(isa), parallel,
               {out.loss.data(), out.dx.data(), nullptr, out.normalizers.data(),
                kept});
    std::vector<T> dw(plan_.num_rows * width), db(plan_.num_rows);
    Backward<T>(problem_, KernelTableFor<T>(isa), parallel,
                {sorted_grads_.data(), out.normalizers.data(), kept, nullptr,
                 dw.data(), db.data()});
    std::vector<int64_t> rows(plan_.num_rows);
    TouchedRows(plan_, rows.data());
    out.dw.resize(w_.size());
    out.db.resize(tree_.num_weight_rows());
    out.touched.resize(tree_.num_weight_rows());
    for (int64_t i = 0; i < plan_.num_rows; ++i) {
      Expect(i == 0 || rows[i] > rows[i - 1], "rows ascend");
      out.touched[rows[i]] = true;
      out.db[rows[i]] = db[i];
      std::copy_n(dw.data() + i * width, width,
                  out.dw.data() + rows[i] * width);
    }
    return out;
  }

  // Runs LossInChunks, with chunks of so many examples, on a tree of one large
  // group. Fills the sums dw and db, by row, that it makes.
  Outputs<T> RunInChunks(Isa isa, int64_t chunk, std::vector<A>* dw,
                         std::vector<A>* db) const {
    Outputs<T> out;
    out.loss.resize(labels_.size());
    out.dx.resize(labels_.size() * problem_.width);
    out.normalizers.resize(2 * plan_.num_passes);
    dw->resize(w_.size());
    db->resize(tree_.num_weight_rows());
    std::vector<A> probs(chunk * plan_.nodes[0].fanout, NAN);
    BackwardArguments<T> arguments;
    arguments.loss_grads = sorted_grads_.data();
    LossInChunks<T>(
        problem_, KernelTableFor<T>(isa), Reversed,
        {out.loss.data(), out.dx.data(), nullptr, out.normalizers.data()},
        arguments, chunk, probs.data(), {dw->data(), db->data()});
    return out;
  }

  ReferenceSums Reference() const {
    return ReferenceBatch(tree_, problem_.width, ToDoubles(w_), ToDoubles(b_),
                          ToDoubles(x_), labels_, ToDoubles(grads_),
                          /*scales_dx=*/false, options_);
  }

 private:
  const TreeView tree_;
  const std::vector<T> w_, b_;
  const std::vector<X> x_;
  const std::vector<int64_t> labels_;
  const std::vector<A> grads_;
  const ReferenceOptions options_;
  Plan plan_;
  std::vector<A> sorted_, sorted_grads_;
  Problem<T> problem_;
};

template <typename T, typename X = T, typename Rng>
void CheckLoss(const Case& c, Isa isa, bool with_bias, const std::string& name,
               Rng* rng) {
  using A = Accumulator<T>;
  const auto [store, sum] = RoundingOf<T>();
  const OwnedTree owned = RandomForest(c, rng);
  const TreeView tree = owned.view();
  const std::vector<T> w = Draw<T>(tree.num_weight_rows() * c.width, 32, rng);
  std::vector<T> b = Draw<T>(tree.num_weight_rows(), 64, rng);
  if (!with_bias) b.clear();
  std::vector<X> x = Draw<X>(c.batch * c.width, 64, rng);
  if constexpr (sizeof(X) > sizeof(T)) {
    for (X& value : x) value /= 3;  // all bits of it count
  }
  std::vector<int64_t> labels(c.batch);
  for (int64_t& label : labels) label = (*rng)() % (tree.num_classes + 1) - 1;
  std::vector<A> grads;
  for (int i = 0; i < c.batch; ++i) grads.push_back(0.5 + 0.25 * (i % 3));
  const std::vector<float> prior = DrawPrior(c, tree, rng);
  const LossBatch<T, X> batch(
      tree, c.width, w, b, x, labels, grads,
      {c.label_smoothing, DataOrNull(prior), c.soft_cap, c.z_loss});
  const Plan& plan = batch.plan();
  if (c.has_prior) {
    Expect(CheckSmoothingPrior(plan, prior.data()).empty(), name + " prior");
  }
  const Outputs<T> out = batch.Run(isa, Serial, true);
  const Outputs<T> remade = batch.Run(isa, Serial, false);
  Expect(SameOutputs(out, batch.Run(isa, Reversed, true)) &&
             SameBits(out.loss, remade.loss) && SameBits(out.dx, remade.dx),
         name + ": the order of items changes the bits");

  // A logit sums `width` products below 1/2; a path adds `depth` terms.
  int64_t depth = 1;
  for (const Node& node : plan.nodes) depth = std::max(depth, node.depth + 1);
  const double tolerance = sum * (4 * c.width + 64) * depth;
  const double total = tolerance * c.batch + store;
  const ReferenceSums want = batch.Reference();
  NearAll(out.loss, want.loss, tolerance, name + " loss");
  NearAll(out.dx, want.dx, tolerance, name + " dx");
  Expect(out.touched == want.touched, name + " touched rows");
  NearAll(out.dw, want.dw, total, name + " dw");
  NearAll(remade.dw, want.dw, total, name + " remade dw");
  NearAll(out.db, want.db, total, name + " db");
  if (plan.nodes.size() != 1 || plan.num_large != 1) return;
  // In chunks that are no whole work items.
  std::vector<A> dw, db;
  const Outputs<T> parts = batch.RunInChunks(isa, 19, &dw, &db);
  // Tiles are for spans of 32 examples and more, vectors for shorter ones.
  const double ulps = isa == Isa::kAmx ? sum * (4 * c.width + 64) : 0;
  NearAll(parts.loss, out.loss, ulps, name + " loss in chunks");
  NearAll(parts.dx, out.dx, ulps, name + " dx in chunks");
  NearAll(dw, want.dw, total, name + " dw in chunks");
  NearAll(db, want.db, total, name + " db in chunks");
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LOSS_TEST_SUPPORT_H_
