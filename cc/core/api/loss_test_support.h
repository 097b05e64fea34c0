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

// Inputs of any type in the order of a plan, as the kernels read them.
template <typename T, typename X>
std::vector<Accumulator<T>> SortedInputs(const Plan& plan,
                                         const std::vector<X>& x,
                                         int64_t width) {
  std::vector<Accumulator<T>> sorted(plan.num_examples() * Padded(width));
  PackInputs(plan.order.data(), plan.num_examples(), x.data(), width, Serial,
             sorted.data());
  return sorted;
}

// Values of the examples in the order of a plan.
template <typename A>
std::vector<A> InOrder(const Plan& plan, const std::vector<A>& values) {
  std::vector<A> sorted;
  for (int64_t example : plan.order) sorted.push_back(values[example]);
  return sorted;
}

template <typename T>
Problem<T> ProblemOf(const Plan& plan, int64_t width, const T* weights,
                     const T* biases, const Accumulator<T>* x,
                     const ReferenceOptions& options) {
  using A = Accumulator<T>;
  Problem<T> problem = {&plan,        width, weights,
                        biases,       x,     static_cast<A>(options.smoothing),
                        options.prior};
  problem.logit_soft_cap = options.soft_cap;
  problem.z_loss = options.z_loss;
  return problem;
}

// What the kernels of a plan read and write, of the sizes that an op gives it.
// What they must fill holds NaN.
template <typename T>
struct BatchMemory {
  using A = Accumulator<T>;
  std::vector<A> loss, dx, normalizers, probs, partials, grads;
  std::vector<T> dw, db;

  // `sorted_grads`: the gradients of the losses, in the plan's order.
  BatchMemory(const Plan& plan, int64_t batch, int64_t width,
              const std::vector<A>& sorted_grads)
      : loss(batch),
        dx(batch * width, AddsDx(plan, batch) ? 0 : NAN),
        normalizers(2 * plan.num_passes, NAN),
        probs(plan.num_probs, NAN),
        partials(plan.num_partials * PartialStride(width), NAN),
        grads(sorted_grads),
        dw(plan.num_rows * width),
        db(plan.num_rows) {}

  ForwardOutputs<T> Outputs(bool with_dx, bool with_normalizers,
                            bool with_probs) {
    ForwardOutputs<T> out;
    out.loss = loss.data();
    if (with_dx) out.dx = dx.data();
    if (with_normalizers) out.normalizers = normalizers.data();
    if (with_probs) out.probs = probs.data();
    return out;
  }

  // The arguments of a backward after the forward with these outputs.
  BackwardArguments<T> Arguments(const ForwardOutputs<T>& outputs) {
    BackwardArguments<T> arguments;
    arguments.loss_grads = grads.data();
    arguments.normalizers = outputs.normalizers;
    arguments.probs = outputs.probs;
    arguments.dw = dw.data();
    arguments.db = db.data();
    arguments.partials = partials.data();
    return arguments;
  }
};

// dw and db have all rows, with zeros where a row is not touched.
template <typename T>
struct Outputs {
  using A = Accumulator<T>;
  std::vector<A> loss, dx;
  std::vector<T> dw, db;
  std::vector<bool> touched;

  Outputs() = default;
  // Takes what a forward and a backward have left in `memory`, of a tree whose
  // weights have `rows` rows.
  Outputs(const BatchMemory<T>& memory, const Plan& plan, int64_t rows,
          int64_t width)
      : loss(memory.loss),
        dx(memory.dx),
        dw(rows * width),
        db(rows),
        touched(rows) {
    std::vector<int64_t> places(plan.num_rows);
    TouchedRows(plan, places.data());
    for (int64_t i = 0; i < plan.num_rows; ++i) {
      const int64_t row = places[i];
      Expect(i == 0 || row > places[i - 1], "rows ascend");
      touched[row] = true;
      db[row] = memory.db[i];
      std::copy_n(memory.dw.data() + i * width, width, dw.data() + row * width);
    }
  }
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
    sorted_ = SortedInputs<T>(plan_, x, width);
    sorted_grads_ = InOrder(plan_, grads);
    problem_ = ProblemOf<T>(plan_, width, w_.data(), DataOrNull(b_),
                            sorted_.data(), options);
  }
  LossBatch(const LossBatch&) = delete;

  const Plan& plan() const { return plan_; }
  const Problem<T>& problem() const { return problem_; }

  // With `keep`, the backward has the probabilities; else it makes them again.
  Outputs<T> Run(Isa isa, const Parallel& parallel, bool keep) const {
    BatchMemory<T> memory(plan_, labels_.size(), problem_.width, sorted_grads_);
    const ForwardOutputs<T> outputs = memory.Outputs(true, true, keep);
    const KernelTable<T>& table = KernelTableFor<T>(isa);
    Forward<T>(problem_, table, parallel, outputs);
    Backward<T>(problem_, table, parallel, memory.Arguments(outputs));
    return {memory, plan_, tree_.num_weight_rows(), problem_.width};
  }

  // Runs LossInChunks, with chunks of so many examples, on a tree of one large
  // group. Fills the sums dw and db, by row, that it makes.
  Outputs<T> RunInChunks(Isa isa, int64_t chunk, std::vector<A>* dw,
                         std::vector<A>* db) const {
    Outputs<T> out;
    out.loss.resize(labels_.size());
    out.dx.resize(labels_.size() * problem_.width);
    dw->resize(w_.size());
    db->resize(tree_.num_weight_rows());
    std::vector<A> normalizers(2 * plan_.num_passes);
    std::vector<A> probs(chunk * plan_.nodes[0].fanout, NAN);
    BackwardArguments<T> arguments;
    arguments.loss_grads = sorted_grads_.data();
    LossInChunks<T>(
        problem_, KernelTableFor<T>(isa), Reversed,
        {out.loss.data(), out.dx.data(), nullptr, normalizers.data()},
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
