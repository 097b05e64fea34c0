// Every ISA and element type against the scalar reference, on random trees and
// ragged sizes; and the same bits whatever the order in which items run.

#include "cc/core/api/loss.h"

#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/api/loss_test_support.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// A row of infinite weights whose logit is minus infinity adds nothing to the
// loss, nor does a zero in one of the inputs' lower halves make the loss NaN.
template <typename T>
void CheckInfinite(Isa isa, std::mt19937* rng) {
  const int64_t batch = 40, width = 40;
  const OwnedTree owned = FlatTree(201);
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
  const LossBatch<T, float> in(tree, width, w, {}, x, labels,
                               std::vector<float>(batch));
  NearAll(in.Run(isa, Serial, false).loss, in.Reference().loss, 1e-5,
          std::string(IsaName(isa)) + " infinite loss");
}

// Weights of few digits take none from inputs and probabilities that are
// float: of each logit, all but the last bits of two inputs cancel.
template <typename T>
void CheckDigits(Isa isa, std::mt19937* rng) {
  const int64_t batch = 40, width = 40;
  const OwnedTree owned = FlatTree(75);
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
  const LossBatch<T, float> in(tree, width, w, {}, x, labels,
                               std::vector<float>(batch));
  const Outputs<T> out = in.Run(isa, Serial, false);
  const ReferenceSums want = in.Reference();
  const std::string name = std::string(IsaName(isa)) + " digits of ";
  NearAll(out.loss, want.loss, 1e-6, name + "loss");
  NearAll(out.dx, want.dx, 2e-6, name + "dx");
}

// Where the backward makes probabilities again that the forward knew to be 1
// and 0, from logits too large for their last digits to agree.
template <typename T>
void CheckSure(Isa isa, int64_t rows) {
  const int64_t batch = 64, width = 64;
  const OwnedTree owned = FlatTree(rows);
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
  const LossBatch<T, float> in(tree, width, w, {}, x, labels,
                               std::vector<float>(batch, 1));
  const Outputs<T> out = in.Run(isa, Serial, false);
  const std::string name = std::string(IsaName(isa)) + " sure db";
  const double most = rows == 2 ? 1e-6 : batch;
  for (const T& v : out.db) Near(ToDouble(v), 0, most, name);
}

// A group that has not the two rows of a pinned one is refused.
void CheckNotPinned() {
  const OwnedTree tree =
      Pinned(GrowTree(2, [](int64_t depth, int64_t k, int64_t) {
        return depth == 0 && k == 0 ? 3 : 0;
      }));
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
  const OwnedTree tree = GrowTree(2, [](int64_t depth, int64_t k, int64_t) {
    return depth > 0 ? 0 : k == 0 ? 3 : 2;
  });
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
  CheckNotPinned();
  CheckPriors();
  ForEachKernel([&](auto zero, Isa isa, const std::string& kernel) {
    using T = decltype(zero);
    for (const Case& c : kLossCases) {
      for (bool bias : {false, true}) {
        CheckLoss<T>(c, isa, bias, kernel + NameOf(c), &rng);
        if constexpr (std::is_same_v<T, bfloat16>) {
          CheckLoss<T, float>(c, isa, bias, kernel + " of float" + NameOf(c),
                              &rng);
        }
      }
    }
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float>) {
      CheckInfinite<T>(isa, &rng);
      CheckDigits<T>(isa, &rng);
      for (int64_t rows : {2, 64}) CheckSure<T>(isa, rows);
    }
  });
  return Summarize();
}
