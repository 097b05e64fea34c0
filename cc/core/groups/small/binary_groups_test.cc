// Groups of two rows where their softmax is hard to get right: margins far
// beyond what exp can take, rows that are switched off, logits that are
// infinite or no numbers. Every ISA and element type against the scalar
// reference; with the probabilities kept for the backward, and without; of
// pinned trees too.

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/loss_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// A chain of `length` groups of two rows: the first row of each is a leaf, of
// the last group both are.
OwnedTree Chain(int length, bool pinned) {
  OwnedTree tree = ChainTree(length, 2, /*inner=*/1);
  tree.pinned = pinned;
  return tree;
}

// All examples have the gradient 1.
struct Batch {
  int64_t width;
  std::vector<double> w, b, x;
  std::vector<int64_t> labels;
  double label_smoothing = 0;
  std::vector<float> prior = {};  // or none
};

template <typename T>
std::vector<T> Convert(const std::vector<double>& values) {
  std::vector<T> result;
  for (double v : values) result.push_back(FromDouble<T>(v));
  return result;
}

template <typename T>
void Compare(const TreeView& tree, const Batch& batch, Isa isa,
             double tolerance, bool with_gradients, const std::string& what) {
  using A = Accumulator<T>;
  const LossBatch<T, A> in(tree, batch.width, Convert<T>(batch.w),
                           Convert<T>(batch.b), Convert<A>(batch.x),
                           batch.labels, std::vector<A>(batch.labels.size(), 1),
                           {batch.label_smoothing, DataOrNull(batch.prior)});
  const ReferenceSums want = in.Reference();
  for (bool keep : {true, false}) {
    const std::string name = what + (keep ? " kept " : " remade ");
    const Outputs<T> got = in.Run(isa, Serial, keep);
    NearAll(got.loss, want.loss, tolerance, name + "loss");
    if (!with_gradients) continue;
    NearAll(got.dx, want.dx, tolerance, name + "dx");
    NearAll(got.dw, want.dw, tolerance, name + "dw");
    NearAll(got.db, want.db, tolerance, name + "db");
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
  const double special[] = {-INFINITY, INFINITY, NAN};
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
      if (which == 3) batch.b[5] = -INFINITY;
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

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  ForEachKernel([](auto zero, Isa isa, const std::string& kernel) {
    using T = decltype(zero);
    const double rounding = RoundingOf<T>().store;
    for (bool pinned : {false, true}) {
      const std::string name = kernel + (pinned ? " pinned" : "");
      CheckMargins<T>(isa, pinned, 64 * rounding, name);
      CheckBiases<T>(isa, pinned, 256 * rounding, name);
    }
  });
  return Summarize();
}
