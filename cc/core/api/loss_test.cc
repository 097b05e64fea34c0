// Every ISA and element type against the scalar reference, on random trees and
// ragged sizes; and the same bits whatever the order in which items run.

#include "cc/core/api/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/loss_test_support.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// What weights without biases and float inputs give.
template <typename T>
Outputs<T> RunFloatInputs(const TreeView& tree, const std::vector<T>& w,
                          const std::vector<float>& x, int64_t width,
                          const std::vector<int64_t>& labels, Isa isa,
                          float loss_grad = 0) {
  const int64_t batch = labels.size();
  Plan plan;
  Expect(MakePlan(tree, labels.data(), batch, {}, &plan).empty(), "plan");
  std::vector<float> sorted(batch * Padded(width));
  PackInputs(plan.order.data(), plan.num_examples(), x.data(), width, Serial,
             sorted.data());
  const Problem<T> problem = {&plan, width, w.data(), nullptr, sorted.data()};
  return Run<T>(problem, isa, Serial, batch,
                std::vector<float>(batch, loss_grad), false);
}

// A row of infinite weights whose logit is minus infinity adds nothing to the
// loss, nor does a zero in one of the inputs' lower halves make the loss NaN.
template <typename T>
void CheckInfinite(Isa isa, std::mt19937* rng) {
  const int64_t batch = 40, width = 40;
  OwnedTree owned;
  while (owned.row_groups.size() < 48) owned = RandomTree(1, 300, 0, rng);
  const TreeView tree = owned.view();
  std::vector<T> w = Draw<T>(tree.num_rows * width, 32, rng);
  std::vector<float> x(batch * width, 1);
  x[width - 1] = 1 + 0x1p-12f;
  const int64_t row = tree.class_rows[0];
  for (int64_t d = 0; d < width; ++d) {
    w[row * width + d] = FromDouble<T>(-INFINITY);
  }
  std::vector<int64_t> labels(batch);
  for (int64_t& label : labels) label = 1 + (*rng)() % (tree.num_classes - 1);
  const Outputs<T> out = RunFloatInputs(tree, w, x, width, labels, isa);
  const std::vector<double> w64 = ToDoubles(w), x64 = ToDoubles(x);
  for (int64_t i = 0; i < batch; ++i) {
    const double want =
        ReferenceLoss(tree, width, w64.data(), nullptr, x64.data() + i * width,
                      labels[i], 1, nullptr, nullptr, nullptr);
    Near(out.loss[i], want, 1e-5, std::string(IsaName(isa)) + " infinite loss");
  }
}

// Weights of few digits take none from inputs and probabilities that are
// float: of each logit, all but the last bits of two inputs cancel.
template <typename T>
void CheckDigits(Isa isa, std::mt19937* rng) {
  const int64_t batch = 40, width = 40;
  OwnedTree owned;
  while (owned.row_groups.size() < 48) owned = RandomTree(1, 100, 0, rng);
  const TreeView tree = owned.view();
  const T zero = FromDouble<T>(0);
  std::vector<T> w(tree.num_rows * width, zero);
  for (int64_t row = 0; row < tree.num_rows; ++row) {
    T* pair = w.data() + row * width + (*rng)() % (width / 2) * 2;
    pair[0] = FromDouble<T>(1024);
    pair[1] = FromDouble<T>(-1024);
  }
  std::vector<float> x(batch * width, 1);
  for (size_t i = 0; i < x.size(); i += 2) x[i] += (*rng)() % 2048 * 0x1p-22f;
  std::vector<int64_t> labels(batch);
  for (int64_t& label : labels) label = (*rng)() % tree.num_classes;
  const Outputs<T> out = RunFloatInputs(tree, w, x, width, labels, isa);
  const std::vector<double> w64 = ToDoubles(w), x64 = ToDoubles(x);
  std::vector<double> dx(x.size());
  const std::string name = std::string(IsaName(isa)) + " digits of ";
  for (int64_t i = 0; i < batch; ++i) {
    const double want =
        ReferenceLoss(tree, width, w64.data(), nullptr, x64.data() + i * width,
                      labels[i], 1, dx.data() + i * width, nullptr, nullptr);
    Near(out.loss[i], want, 1e-6, name + "loss");
  }
  for (size_t i = 0; i < x.size(); ++i) {
    Near(out.dx[i], dx[i], 2e-6, name + "dx");
  }
}

// Where the backward makes probabilities again that the forward knew to be 1
// and 0, from logits too large for their last digits to agree.
template <typename T>
void CheckSure(Isa isa, int64_t rows) {
  const int64_t batch = 64, width = 64;
  OwnedTree owned;
  owned.parents = {-1};
  owned.offsets = {0, rows};
  owned.row_groups.assign(rows, 0);
  for (int64_t k = 0; k < rows; ++k) {
    owned.class_rows.push_back(k);
    owned.ranks.push_back(k);
  }
  const TreeView tree = owned.view();
  std::mt19937 rng(7);
  std::vector<T> w = Draw<T>(rows * width, 1, &rng);
  std::vector<float> x(batch * width);
  std::uniform_real_distribution<float> uniform(1, 2);
  for (float& v : x) v = uniform(rng);
  for (int64_t d = 0; d < width; ++d) {
    w[d] = FromDouble<T>(-1e6 * uniform(rng));
    w[(rows - 1) * width + d] = FromDouble<T>(1e6 * uniform(rng));
  }
  const std::vector<int64_t> labels(batch, rows - 1);
  const Outputs<T> out = RunFloatInputs(tree, w, x, width, labels, isa, 1);
  const std::string name = std::string(IsaName(isa)) + " sure db";
  const double most = rows == 2 ? 1e-6 : batch;
  for (const T& v : out.db) Near(ToDouble(v), 0, most, name);
}

// A pinned tree and the same one with weights, all zero, for every second row:
// the same losses and dx to the bit, and the gradients of the first rows.
template <typename T>
void CheckZeroRows(const Case& c, Isa isa, std::mt19937* rng) {
  using A = Accumulator<T>;
  const OwnedTree pinned = RandomForest(c, rng);
  OwnedTree expanded = pinned;
  expanded.pinned = false;
  const int64_t groups = pinned.parents.size(), width = c.width;
  const std::vector<T> w = Draw<T>(groups * width, 32, rng);
  const std::vector<T> b = Draw<T>(groups, 64, rng);
  std::vector<T> all_w(2 * groups * width), all_b(2 * groups);
  for (int64_t g = 0; g < groups; ++g) {
    std::copy_n(w.data() + g * width, width, all_w.data() + 2 * g * width);
    all_b[2 * g] = b[g];
  }
  const std::vector<T> x = Draw<T>(c.batch * width, 64, rng);
  std::vector<int64_t> labels(c.batch);
  for (int64_t& label : labels) label = (*rng)() % pinned.class_rows.size();
  const std::vector<A> grads(c.batch, A(0.5));
  auto run = [&](const OwnedTree& tree, const std::vector<T>& weights,
                 const std::vector<T>& biases, bool keep, Plan* plan) {
    Expect(MakePlan(tree.view(), labels.data(), c.batch, {}, plan).empty(),
           "plan");
    std::vector<A> sorted(c.batch * Padded(width));
    PackInputs(plan->order.data(), c.batch, x.data(), width, Serial,
               sorted.data());
    const Problem<T> problem = {plan, width, weights.data(), biases.data(),
                                sorted.data()};
    return Run<T>(problem, isa, Serial, c.batch, grads, keep);
  };
  for (bool keep : {false, true}) {
    Plan plan, all_plan;
    const Outputs<T> got = run(pinned, w, b, keep, &plan);
    const Outputs<T> want = run(expanded, all_w, all_b, keep, &all_plan);
    const std::string name = std::string(IsaName(isa)) + " zero rows ";
    Expect(SameBits(got.loss, want.loss) && SameBits(got.dx, want.dx), name);
    Expect(2 * plan.num_rows == all_plan.num_rows, name + "touched");
    for (int64_t i = 0; i < plan.num_rows; ++i) {
      Near(ToDouble(got.db[i]), ToDouble(want.db[2 * i]), 1e-6, name + "db");
      for (int64_t d = 0; d < width; ++d) {
        Near(ToDouble(got.dw[i * width + d]),
             ToDouble(want.dw[2 * i * width + d]), 1e-6, name + "dw");
      }
    }
  }
}

// A group that has not the two rows of a pinned one is refused.
void CheckNotPinned() {
  OwnedTree tree;
  tree.parents = {-1, 0};
  tree.offsets = {0, 2, 5};
  tree.class_rows = {1, 2, 3, 4};
  tree.row_groups = {0, 0, 1, 1, 1};
  tree.ranks = {3, 0, 1, 2};
  tree.pinned = true;
  const int64_t labels[] = {2};
  Plan plan;
  const std::string error = MakePlan(tree.view(), labels, 1, {}, &plan);
  Expect(error ==
             "group_offsets[1] = 2 and group_offsets[2] = 5, but group g of a "
             "pinned tree has the two rows 2 g and 2 g + 1",
         error);
}

// What a prior must be, in the groups that are touched and in no others.
void CheckPriors() {
  OwnedTree tree;
  tree.parents = {-1, 0, 1};
  tree.offsets = {0, 2, 5, 7};
  tree.class_rows = {2, 3, 4, 5, 6};
  tree.row_groups = {0, 0, 1, 1, 1, 2, 2};
  tree.ranks = {0, 1, 2, 3, 4};
  const int64_t labels[] = {1};
  Plan plan;
  Expect(MakePlan(tree.view(), labels, 1, {}, &plan).empty(), "plan");
  const float right[] = {1, 0, 0.25f, 0.5f, 0.25f, NAN, 9};
  auto check = [&](int row, float share, const std::string& want) {
    std::vector<float> prior(right, right + 7);
    prior[row] = share;
    const std::string error = CheckSmoothingPrior(plan, prior.data());
    Expect(error == want, "prior: " + error);
  };
  const std::string group =
      "smoothing_prior must sum to 1 in each group, but sums to ";
  check(6, 7, "");
  check(2, 0.25001f, "");
  check(2, 0.26f, group + "1.010000 in group 1, the rows 2 to 4");
  check(0, 0, group + "0.000000 in group 0, the rows 0 to 1");
  check(3, NAN, "smoothing_prior[3] = nan is outside [0, 1]");
  check(3, INFINITY, "smoothing_prior[3] = inf is outside [0, 1]");
  check(1, -0.5f, "smoothing_prior[1] = -0.500000 is outside [0, 1]");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  const Case cases[] = {{1, 1, 1, 1, 0},
                        {1, 3, 1, 300, 0},
                        {5, 16, 3, 4, 0.5},
                        {33, 17, 40, 9, 0.3},
                        {252, 50, 20, 90, 0.1},
                        {123, 64, 300, 2, 0.9},
                        {70, 100, 60, 13, 1},
                        {9, 131, 200, 1, 1},
                        {400, 7, 5, 200, 0.05},
                        {0, 5, 3, 3, 0.5},
                        {6, 5000, 3, 12, 0.2},
                        {150, 77, 3, 900, 0.01},
                        {300, 33, 60, 40, 1},
                        {333, 70, 2, 150, 0.3},
                        // Forests: mixed, of deep trees, of single groups.
                        {60, 33, 9, 20, 0.5, 5},
                        {333, 20, 40, 3, 0.8, 7},
                        {90, 17, 1, 40, 0, 40},
                        // Flat trees with a soft cap, a z-loss or both.
                        FlatCase(70, 17, 300, 2, 0),
                        FlatCase(33, 77, 90, 0, 0.125),
                        FlatCase(130, 20, 900, 1.5, 0.0625),
                        FlatCase(9, 256, 40, 3, 0.125),
                        FlatCase(33, 17, 60, 0, 0.125, 0.25),
                        FlatCase(33, 17, 60, 0, 0.125, 0.25, true),
                        // With label smoothing.
                        {33, 17, 40, 9, 0.3, 1, 0.5},
                        {252, 50, 20, 90, 0.1, 1, 0.25},
                        {123, 64, 300, 2, 0.9, 1, 0.25},
                        {300, 33, 60, 40, 1, 1, 0.125},
                        {150, 77, 3, 900, 0.01, 1, 1},
                        {60, 33, 9, 20, 0.5, 5, 0.25},
                        // Towards a prior.
                        {33, 17, 40, 9, 0.3, 1, 0.5, false, true},
                        {252, 50, 20, 90, 0.1, 1, 0.25, false, true},
                        {123, 64, 300, 2, 0.9, 1, 0.25, false, true},
                        {150, 77, 3, 900, 0.01, 1, 1, false, true},
                        {60, 33, 9, 20, 0.5, 5, 0.25, false, true},
                        {123, 31, 100, 2, 0.9, 1, 0.25, true, true},
                        // Pinned: one block of examples and several; a forest.
                        {1, 1, 1, 2, 0, 1, 0, true},
                        {29, 20, 90, 2, 0.7, 1, 0, true},
                        {123, 64, 300, 2, 0.9, 1, 0, true},
                        {170, 37, 40, 2, 0.5, 3, 0, true},
                        {200, 5, 150, 2, 0, 1, 0, true},
                        {123, 31, 100, 2, 0.9, 1, 0.25, true}};
  CheckNotPinned();
  CheckPriors();
  for (Isa isa : SupportedIsas()) {
    for (const Case& c : cases) {
      for (bool bias : {false, true}) {
        const std::string name =
            std::string(IsaName(isa)) + " B=" + std::to_string(c.batch) +
            " D=" + std::to_string(c.width) + (c.pinned ? " pinned " : " ");
        const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
        CheckLoss<double>(c, isa, f64, f64, bias, name + "double", &rng);
        CheckLoss<float>(c, isa, f32, f32, bias, name + "float", &rng);
        CheckLoss<bfloat16>(c, isa, std::ldexp(1.0, -8), f32, bias,
                            name + "bfloat16", &rng);
        CheckLoss<bfloat16, float>(c, isa, std::ldexp(1.0, -8), f32, bias,
                                   name + "bfloat16 of float", &rng);
        CheckLoss<half>(c, isa, std::ldexp(1.0, -11), f32, bias, name + "half",
                        &rng);
      }
    }
    CheckInfinite<float>(isa, &rng);
    CheckInfinite<bfloat16>(isa, &rng);
    CheckDigits<float>(isa, &rng);
    CheckDigits<bfloat16>(isa, &rng);
    for (const Case& c : cases) {
      if (!c.pinned) continue;
      CheckZeroRows<double>(c, isa, &rng);
      CheckZeroRows<float>(c, isa, &rng);
      CheckZeroRows<bfloat16>(c, isa, &rng);
      CheckZeroRows<half>(c, isa, &rng);
    }
    for (int64_t rows : {2, 64}) {
      CheckSure<float>(isa, rows);
      CheckSure<bfloat16>(isa, rows);
    }
    std::printf("%s: done\n", IsaName(isa));
  }
  return Summarize();
}
