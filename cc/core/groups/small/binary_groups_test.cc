// Groups of two rows where their softmax is hard to get right: margins far
// beyond what exp can take, rows that are switched off, logits that are
// infinite or no numbers. Every ISA and element type against the scalar
// reference; with the probabilities kept for the backward, and without; of
// pinned trees too.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

constexpr double kInfinity = INFINITY;

// A chain of `length` groups of two rows: the first row of each is a leaf, of
// the last group both are.
OwnedTree Chain(int length, bool pinned) {
  OwnedTree tree;
  tree.pinned = pinned;
  for (int g = 0; g < length; ++g) {
    tree.parents.push_back(2 * g - 1);
    tree.offsets.push_back(2 * g + 2);
    tree.class_rows.push_back(2 * g);
    tree.ranks.push_back(g);
    tree.row_groups.insert(tree.row_groups.end(), {g, g});
  }
  tree.class_rows.push_back(2 * length - 1);
  tree.ranks.push_back(length);
  return tree;
}

// Losses, dx, dW and db of a batch, all examples with the gradient 1.
struct Results {
  std::vector<double> loss, dx, dw, db;
};

struct Batch {
  int64_t width;
  std::vector<double> w, b, x;
  std::vector<int64_t> labels;
  double label_smoothing = 0;
  std::vector<float> prior = {};  // or none
};

Results Reference(const TreeView& tree, const Batch& batch) {
  const int64_t width = batch.width;
  Results want;
  want.dx.resize(batch.x.size());
  want.dw.resize(batch.w.size());
  want.db.resize(tree.num_weight_rows());
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    want.loss.push_back(ReferenceLoss(
        tree, width, batch.w.data(), batch.b.empty() ? nullptr : batch.b.data(),
        batch.x.data() + i * width, batch.labels[i], 1,
        want.dx.data() + i * width, want.dw.data(), want.db.data(),
        {batch.label_smoothing, PriorOrNull(batch.prior)}));
  }
  return want;
}

template <typename T>
std::vector<T> Convert(const std::vector<double>& values) {
  std::vector<T> result;
  for (double v : values) {
    T converted;
    if (std::isfinite(v)) {
      converted = FromDouble<T>(v);
    } else if constexpr (std::is_same_v<T, half>) {
      converted = {static_cast<uint16_t>(std::isnan(v) ? 0x7e00
                                         : v > 0       ? 0x7c00
                                                       : 0xfc00)};
    } else {
      converted = FromDouble<T>(v);
    }
    result.push_back(converted);
  }
  return result;
}

template <typename T>
Results Run(const TreeView& tree, const Batch& batch, Isa isa, bool keep) {
  using A = Accumulator<T>;
  const int64_t width = batch.width, examples = batch.labels.size();
  Plan plan;
  const std::string error =
      MakePlan(tree, batch.labels.data(), examples, {}, &plan);
  Expect(error.empty(), error);
  const std::vector<T> w = Convert<T>(batch.w), b = Convert<T>(batch.b);
  const std::vector<A> x(batch.x.begin(), batch.x.end());
  std::vector<A> sorted(examples * Padded(width));
  PackInputs(plan.order.data(), examples, x.data(), width, Serial,
             sorted.data());
  std::vector<A> loss(examples), grads(examples, 1);
  std::vector<A> dx(examples * width, AddsDx(plan, examples) ? 0 : NAN);
  std::vector<A> normalizers(2 * plan.num_passes), probs(plan.num_probs);
  std::vector<T> dw(plan.num_rows * width), db(plan.num_rows);
  const Problem<T> problem = {&plan,
                              width,
                              w.data(),
                              b.empty() ? nullptr : b.data(),
                              sorted.data(),
                              static_cast<A>(batch.label_smoothing),
                              PriorOrNull(batch.prior)};
  const KernelTable<T>& kernels = KernelTableFor<T>(isa);
  A* kept = keep ? probs.data() : nullptr;
  Forward<T>(problem, kernels, Serial,
             {loss.data(), dx.data(), nullptr, normalizers.data(), kept});
  Backward<T>(
      problem, kernels, Serial,
      {grads.data(), normalizers.data(), kept, nullptr, dw.data(), db.data()});
  Results got = {ToDoubles(loss), ToDoubles(dx), {}, {}};
  got.dw.resize(batch.w.size());
  got.db.resize(tree.num_weight_rows());
  std::vector<int64_t> rows(plan.num_rows);
  TouchedRows(plan, rows.data());
  for (int64_t i = 0; i < plan.num_rows; ++i) {
    got.db[rows[i]] = ToDouble(db[i]);
    for (int64_t d = 0; d < width; ++d) {
      got.dw[rows[i] * width + d] = ToDouble(dw[i * width + d]);
    }
  }
  return got;
}

// Whether numbers are equal, infinities and NaN in the same places.
void Same(const std::vector<double>& got, const std::vector<double>& want,
          double tolerance, const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i])) {
      Near(got[i], want[i], tolerance, what);
    } else {
      Expect(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i],
             what + " is not " + std::to_string(want[i]));
    }
  }
}

template <typename T>
void Compare(const TreeView& tree, const Batch& batch, Isa isa,
             double tolerance, bool with_gradients, const std::string& what) {
  const Results want = Reference(tree, batch);
  for (bool keep : {true, false}) {
    const std::string name =
        std::string(IsaName(isa)) + " " + what + (keep ? " kept " : " remade ");
    const Results got = Run<T>(tree, batch, isa, keep);
    Same(got.loss, want.loss, tolerance, name + "loss");
    if (!with_gradients) continue;
    Same(got.dx, want.dx, tolerance, name + "dx");
    Same(got.dw, want.dw, tolerance, name + "dw");
    Same(got.db, want.db, tolerance, name + "db");
  }
}

// Without label smoothing, and with it, towards priors too that leave a row
// without a share.
struct Smoothing {
  double share;
  float prior;  // of the first row; negative: none
};
constexpr Smoothing kSmoothings[] = {{0, -1},   {0.25, -1}, {0.25, 0.125f},
                                     {0.25, 0}, {0.25, 1},  {1, 0.75f},
                                     {1, 0},    {1, 1}};

std::vector<float> PriorOf(const Smoothing& smoothing, int64_t rows) {
  std::vector<float> prior(smoothing.prior < 0 ? 0 : rows);
  for (size_t row = 0; row < prior.size(); ++row) {
    prior[row] = row % 2 == 0 ? smoothing.prior : 1 - smoothing.prior;
  }
  return prior;
}

// One group and inputs that make its margins: 0, small, and far past what exp
// takes, which neither overflows nor loses the loss's digits.
template <typename T>
void CheckMargins(Isa isa, bool pinned, double tolerance,
                  const std::string& type) {
  const OwnedTree owned = Chain(1, pinned);
  const TreeView tree = owned.view();
  Batch batch = {17, std::vector<double>(17, pinned ? 2 : 1), {}, {}, {}};
  if (!pinned) batch.w.resize(2 * 17, -1);
  for (double margin : {0.0, 0.5, -0.5, 8.0, -8.0, 86.0, -86.0, 100.0, -100.0,
                        1000.0, -1000.0, 3e4, -3e4}) {
    for (int64_t label : {0, 1}) {
      batch.labels.push_back(label);
      for (int d = 0; d < 17; ++d) batch.x.push_back(d == 16 ? margin / 2 : 0);
    }
  }
  for (const Smoothing& smoothing : kSmoothings) {
    batch.label_smoothing = smoothing.share;
    batch.prior = PriorOf(smoothing, tree.num_rows);
    Compare<T>(tree, batch, isa, tolerance, true, type + " margins");
  }
}

// Rows that are switched off, and biases that leave no distribution.
template <typename T>
void CheckBiases(Isa isa, bool pinned, double tolerance,
                 const std::string& type) {
  const OwnedTree owned = Chain(6, pinned);
  const TreeView tree = owned.view();
  const int64_t rows = tree.num_weight_rows();
  std::mt19937 rng(3);
  const double special[] = {-kInfinity, kInfinity, NAN};
  for (int length = 1; length <= 40; length += 13) {
    // The last: neither row has a probability, which takes two biases.
    for (int which = 0; which < (pinned ? 3 : 4); ++which) {
      Batch batch = {5, {}, std::vector<double>(rows), {}, {}};
      for (int i = 0; i < rows * 5; ++i) {
        batch.w.push_back(static_cast<int>(rng() % 64) / 64.0 - 0.5);
      }
      for (int i = 0; i < length * 5; ++i) {
        batch.x.push_back(static_cast<int>(rng() % 64) / 64.0 - 0.5);
      }
      for (int i = 0; i < length; ++i) {
        batch.labels.push_back(rng() % tree.num_classes);
      }
      // The third group has one row off, or a bias that makes its losses NaN.
      batch.b[tree.weight_row(4)] = special[which % 3];
      if (which == 3) batch.b[5] = -kInfinity;
      const bool is_off = which == 0;
      for (const Smoothing& smoothing : kSmoothings) {
        batch.label_smoothing = smoothing.share;
        batch.prior = PriorOf(smoothing, tree.num_rows);
        Compare<T>(tree, batch, isa, tolerance, is_off,
                   type + " bias " + std::to_string(which));
      }
    }
  }
}

template <typename T>
void Check(Isa isa, double rounding, const std::string& type) {
  for (bool pinned : {false, true}) {
    const std::string name = type + (pinned ? " pinned" : "");
    CheckMargins<T>(isa, pinned, 64 * rounding, name);
    CheckBiases<T>(isa, pinned, 256 * rounding, name);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  for (Isa isa : SupportedIsas()) {
    Check<double>(isa, std::ldexp(1.0, -53), "double");
    Check<float>(isa, std::ldexp(1.0, -24), "float");
    Check<bfloat16>(isa, std::ldexp(1.0, -8), "bfloat16");
    Check<half>(isa, std::ldexp(1.0, -11), "half");
    std::printf("%s: done\n", IsaName(isa));
  }
  return Summarize();
}
