// Losses, gradients and steps of label trees: every ISA and element type
// against the scalar reference, on random trees, label sets and ragged sizes;
// and the same bits whatever the order in which items run.

#include "cc/core/api/label_tree.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// A batch: labels [batch, count], -1 for none.
template <typename T>
struct Batch {
  OwnedTree owned;
  int64_t size, width, count;
  std::vector<T> w, b, x;
  std::vector<int64_t> labels;
  std::vector<Accumulator<T>> grads;

  template <typename Rng>
  Batch(const Case& c, int64_t the_count, Rng* rng)
      : owned(RandomTree(c.groups, c.most, c.inner, rng)),
        size(c.batch),
        width(c.width),
        count(the_count) {
    const TreeView tree = owned.view();
    w = Draw<T>(tree.num_rows * width, 32, rng);
    b = Draw<T>(tree.num_rows, 64, rng);
    x = Draw<T>(size * width, 64, rng);
    // About half of them; the same label may stand there twice.
    for (int64_t i = 0; i < size * count; ++i) {
      labels.push_back((*rng)() % 2 ? -1 : (*rng)() % tree.num_classes);
    }
    for (int64_t i = 0; i < size; ++i) grads.push_back(0.5 + 0.25 * (i % 3));
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
struct Results {
  std::vector<Accumulator<T>> loss, dx;
  std::vector<T> dw, db;
};

// With an update, makes it in the place of dw and db.
template <typename T>
Results<T> Run(const Batch<T>& in, const LabelPlan& plan, Isa isa,
               const Parallel& parallel, bool with_bias,
               const Update<T>* update = nullptr) {
  using A = Accumulator<T>;
  std::vector<A> packed(plan.num_visits() * Padded(in.width));
  PackInputs(plan.plan.order.data(), plan.num_visits(), in.x.data(), in.width,
             Serial, packed.data());
  std::vector<A> dz(plan.plan.num_probs, NAN), grads;
  for (int64_t example : plan.plan.order) grads.push_back(in.grads[example]);
  Results<T> out;
  out.loss.assign(in.size, NAN);
  out.dx.assign(in.size * in.width, NAN);
  const Problem<T> problem = {&plan.plan, in.width, in.w.data(),
                              with_bias ? in.b.data() : nullptr, packed.data()};
  const auto& table = KernelTableFor<T>(isa);
  LabelTreeForward<T>(plan, problem, table, parallel,
                      {out.loss.data(), out.dx.data(),
                       update ? in.grads.data() : nullptr, dz.data()});
  BackwardArguments<T> backward;
  backward.loss_grads = grads.data();
  backward.probs = dz.data();
  backward.update = update;
  out.dw.resize(plan.plan.num_rows * in.width);
  out.db.resize(plan.plan.num_rows);
  backward.dw = out.dw.data();
  backward.db = out.db.data();
  Backward<T>(problem, table, parallel, backward);
  return out;
}

template <typename T>
void Check(const Case& c, int64_t count, Isa isa, double store, double sum,
           bool with_bias, const std::string& name, std::mt19937* rng) {
  const Batch<T> in(c, count, rng);
  const TreeView tree = in.owned.view();
  LabelPlan plan;
  const std::string error =
      MakeLabelPlan(tree, in.labels.data(), in.size, count, {-1}, &plan);
  Expect(error.empty(), name + " plan: " + error);
  if (!error.empty()) return;
  const Results<T> out = Run(in, plan, isa, Serial, with_bias);
  const Results<T> again = Run(in, plan, isa, Reversed, with_bias);
  Expect(SameBits(out.loss, again.loss) && SameBits(out.dx, again.dx) &&
             SameBits(out.dw, again.dw) && SameBits(out.db, again.db),
         name + ": the order of items changes the bits");

  const std::vector<double> w = ToDoubles(in.w), b = ToDoubles(in.b);
  const std::vector<double> x = ToDoubles(in.x);
  std::vector<double> dw(w.size()), db(b.size()), dx(x.size());
  const double* biases = with_bias ? b.data() : nullptr;
  // A logit sums `width` products below 1/2.
  const double tolerance = sum * (4 * c.width + 64);
  for (int64_t i = 0; i < in.size; ++i) {
    const double* xi = x.data() + i * c.width;
    const std::vector<int64_t> labels = in.LabelsOf(i);
    const double loss =
        ReferenceLabelLoss(tree, c.width, w.data(), biases, xi, labels, 1,
                           dx.data() + i * c.width, nullptr, nullptr);
    ReferenceLabelLoss(tree, c.width, w.data(), biases, xi, labels, in.grads[i],
                       nullptr, dw.data(), db.data());
    Near(out.loss[i], loss, tolerance, name + " loss");
  }
  // dx sums a row of every visit.
  for (size_t i = 0; i < dx.size(); ++i) {
    Near(out.dx[i], dx[i], tolerance * tree.num_groups, name + " dx");
  }
  std::vector<int64_t> rows(plan.plan.num_rows);
  TouchedRows(plan.plan, rows.data());
  std::vector<bool> touched(tree.num_rows);
  const double total = tolerance * c.batch + store;
  for (size_t i = 0; i < rows.size(); ++i) {
    Expect(i == 0 || rows[i] > rows[i - 1], name + " rows ascend");
    touched[rows[i]] = true;
    Near(ToDouble(out.db[i]), db[rows[i]], total, name + " db");
    for (int d = 0; d < c.width; ++d) {
      Near(ToDouble(out.dw[i * c.width + d]), dw[rows[i] * c.width + d], total,
           name + " dw");
    }
  }
  for (int64_t r = 0; r < tree.num_rows; ++r) {
    if (!touched[r]) Near(db[r], 0, 0, name + " untouched row");
  }
}

// A step in place has the loss before it, dx of the total, and the rows that
// SGD would make of dw.
void CheckStep(const Case& c, int64_t count, Isa isa, std::mt19937* rng) {
  Batch<float> in(c, count, rng);
  LabelPlan plan;
  MakeLabelPlan(in.owned.view(), in.labels.data(), in.size, count, {-1}, &plan);
  const Results<float> want = Run(in, plan, isa, Serial, true);
  std::vector<float> w = in.w, b = in.b;
  std::vector<int64_t> rows(plan.plan.num_rows);
  TouchedRows(plan.plan, rows.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    b[rows[i]] -= 0.1f * want.db[i];
    for (int64_t d = 0; d < in.width; ++d) {
      w[rows[i] * in.width + d] -= 0.1f * want.dw[i * in.width + d];
    }
  }
  Update<float> update;
  update.hyper.learning_rate = 0.1;
  update.weights = in.w.data();
  update.biases = in.b.data();
  const Results<float> got = Run(in, plan, isa, Serial, true, &update);
  Expect(SameBits(got.loss, want.loss), "loss of a step");
  for (size_t i = 0; i < got.dx.size(); ++i) {
    Near(got.dx[i], want.dx[i] * in.grads[i / in.width], 1e-5, "dx of a step");
  }
  for (size_t i = 0; i < w.size(); ++i) {
    Near(in.w[i], w[i], 1e-4, "weights of a step");
  }
  for (size_t i = 0; i < b.size(); ++i) {
    Near(in.b[i], b[i], 1e-4, "biases of a step");
  }
}

// Logits far out on both sides: probabilities of 0 and 1, losses of |z| and of
// exp(-|z|), which is small but not nothing.
void CheckFar(Isa isa) {
  OwnedTree owned;
  owned.parents = {-1};
  owned.offsets = {0, 19};
  owned.row_groups.assign(19, 0);
  for (int64_t k = 0; k < 19; ++k) {
    owned.class_rows.push_back(k);
    owned.ranks.push_back(k);
  }
  LabelPlan plan;
  const int64_t label = 3;
  Expect(MakeLabelPlan(owned.view(), &label, 1, 1, {-1}, &plan).empty(), "far");
  const float x[16] = {1};
  for (float z : {0.0f, 20.0f, -20.0f, 80.0f, 1e4f, -1e30f}) {
    std::vector<float> w(19, z), dz(19);
    float loss, dx;
    const Problem<float> problem = {&plan.plan, 1, w.data(), nullptr, x};
    LabelTreeForward<float>(plan, problem, KernelTableFor<float>(isa), Serial,
                            {&loss, &dx, nullptr, dz.data()});
    const double small = std::log1p(std::exp(-std::fabs(double{z})));
    const double want = 19 * small + std::fmax(-z, 0) + 18 * std::fmax(z, 0.0);
    Expect(std::fabs(loss - want) <= 1e-5 * want, "loss far out");
    const double p = 1 / (1 + std::exp(-double{z}));
    Expect(std::fabs(dz[0] - p) <= 1e-6 * p + 1e-38, "dz far out");
    Near(dz[3], p - 1, 1e-6, "dz of the label far out");
  }
}

// Trees and labels that are wrong: a sentence, and no visit.
void CheckErrors(std::mt19937* rng) {
  auto error = [](const OwnedTree& owned, std::vector<int64_t> labels) {
    LabelPlan plan;
    return MakeLabelPlan(owned.view(), labels.data(), 1, labels.size(), {-1},
                         &plan);
  };
  OwnedTree tree;
  while (tree.class_rows.size() < 20) tree = RandomTree(9, 6, 0.4, rng);
  auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const int64_t past = tree.class_rows.size();
  Expect(error(tree, {0, 1, -1, 1}).empty(), "a right tree");
  Expect(contains(error(tree, {0, past}), "labels[1]"), "a label past the end");
  Expect(contains(error(tree, {-2}), "labels[0]"), "a negative label");
  OwnedTree wrong = tree;
  wrong.class_rows[0] = wrong.row_groups.size();
  Expect(contains(error(wrong, {0}), "class_rows[0]"), "a wrong row");
  wrong = tree;
  wrong.row_groups[tree.class_rows[0]] = -5;
  Expect(contains(error(wrong, {0}), "row_groups"), "a wrong group");
  wrong = tree;
  wrong.offsets[0] = -1;
  Expect(contains(error(wrong, {}), "group_offsets[0]"), "a wrong offset");
  // Two leaves of the root's group in the other order.
  wrong = tree;
  std::vector<int64_t> leaves;
  while (leaves.size() < 2) {
    wrong = RandomTree(9, 6, 0.4, rng);
    leaves.clear();
    for (size_t c = 0; c < wrong.class_rows.size(); ++c) {
      if (wrong.class_rows[c] < wrong.offsets[1]) leaves.push_back(c);
    }
  }
  std::swap(wrong.ranks[leaves[0]], wrong.ranks[leaves[1]]);
  Expect(contains(error(wrong, leaves), "class_ranks"), "wrong ranks");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  const Case cases[] = {
      {1, 1, 1, 1, 0},        {1, 3, 1, 300, 0},    {33, 17, 40, 9, 0.3},
      {252, 50, 20, 90, 0.1}, {70, 100, 60, 13, 1}, {90, 7, 200, 2, 1},
      {0, 5, 3, 3, 0.5},      {6, 700, 3, 12, 0.2}, {150, 77, 3, 900, 0.01}};
  const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
  for (Isa isa : SupportedIsas()) {
    for (const Case& c : cases) {
      for (int64_t count : {0, 1, 7}) {
        const bool bias = count != 1;
        const std::string name = std::string(IsaName(isa)) +
                                 " B=" + std::to_string(c.batch) +
                                 " D=" + std::to_string(c.width) +
                                 " M=" + std::to_string(count) + " ";
        Check<double>(c, count, isa, f64, f64, bias, name + "double", &rng);
        Check<float>(c, count, isa, f32, f32, bias, name + "float", &rng);
        Check<bfloat16>(c, count, isa, std::ldexp(1.0, -8), f32, bias,
                        name + "bfloat16", &rng);
        Check<half>(c, count, isa, std::ldexp(1.0, -11), f32, bias,
                    name + "half", &rng);
        CheckStep(c, count, isa, &rng);
      }
    }
    CheckFar(isa);
    std::printf("%s: done\n", IsaName(isa));
  }
  CheckErrors(&rng);
  return Summarize();
}
