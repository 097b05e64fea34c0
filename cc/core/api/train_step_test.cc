// The training step in place: every ISA, element type and update rule against
// the scalar reference, over two steps on random trees, with partial gradients
// and without, with weight decay and without; the same bits whatever the order
// in which items run; and the rounding of bfloat16 keeps the mean.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/train_step_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// Rounded at random, the mean of many weights is that of the exact step, which
// rounding to nearest would leave where it was; the same seed, the same bits.
// A tree of one group of at most `most` rows.
void CheckStochastic(Isa isa, int64_t batch, int most, std::mt19937* rng) {
  const std::string name = std::string(IsaName(isa)) + " stochastic";
  const int64_t width = 517;
  OwnedTree owned;
  while (owned.class_rows.size() < 2) owned = RandomTree(1, most, 0, rng);
  const TreeView tree = owned.view();
  const std::vector<int64_t> labels(batch);
  const std::vector<bfloat16> w(tree.num_rows * width, FromDouble<bfloat16>(1));
  const std::vector<bfloat16> x(batch * width, FromDouble<bfloat16>(1));
  const double grad = 1.0 / (64 * batch);
  Run<double> want;
  want.state = MakeState<double>(UpdateRule::kSgd, tree.num_rows, width,
                                 ToDoubles(w), {});
  ReferenceStep(tree, labels, ToDoubles(x), width,
                std::vector<double>(batch, grad), UpdateRule::kSgd, &want);
  std::vector<std::vector<bfloat16>> results;
  for (uint64_t seed : {7, 7, 8}) {
    Run<bfloat16> run;
    run.state =
        MakeState<bfloat16>(UpdateRule::kSgd, tree.num_rows, width, w, {});
    run.Step(tree, labels, x, width, std::vector<float>(batch, grad),
             UpdateRule::kSgd, true, seed, isa, kWays[0], Serial);
    results.push_back(run.state.w);
    double got_mean = 0, want_mean = 0;
    const int64_t row = tree.class_rows[0];
    for (int64_t d = 0; d < width; ++d) {
      got_mean += ToDouble(run.state.w[row * width + d]) / width;
      want_mean += want.state.w[row * width + d] / width;
    }
    // A rounding's deviation is at most half of 2^-7.
    Near(got_mean, want_mean, 4 * 0x1p-8 / std::sqrt(width), name + " mean");
  }
  Expect(SameBits(results[0], results[1]), name + ": one seed, other bits");
  Expect(!SameBits(results[0], results[2]), name + ": the seed has no effect");
}

// Places for all partial gradients, for as many as there is room, for none; and
// for the other groups' probabilities.
void CheckPlaces(std::mt19937* rng) {
  const OwnedTree owned = RandomTree(60, 3, 0.9, rng);
  const TreeView tree = owned.view();
  std::vector<int64_t> labels(100);
  for (int64_t& label : labels) label = (*rng)() % tree.num_classes;
  Plan plan;
  Expect(MakePlan(tree, labels.data(), 100, {}, &plan).empty(), "plan");
  int64_t partials = 0, probs = 0, probs_of_two = 0, last = 0;
  for (const Node& node : plan.nodes) {
    std::vector<bool> in_run(4);
    for (int64_t at = node.begin; at < node.end; ++at) in_run[at / 32] = true;
    const int64_t runs = std::count(in_run.begin(), in_run.end(), true);
    if (runs == 1) continue;
    probs += node.population() * node.fanout;
    if (node.fanout != 2) continue;
    partials += runs;
    last = node.population() * 2;
    probs_of_two += last;
  }
  PlanTraining(&plan, partials);
  Expect(partials > 0 && plan.num_partials == partials &&
             plan.num_probs == probs - probs_of_two,
         "places of partial gradients");
  PlanTraining(&plan, partials - 1);
  Expect(plan.num_partials < partials &&
             plan.num_probs == probs - probs_of_two + last,
         "places where one group has no room");
  PlanTraining(&plan, 0);
  Expect(plan.num_partials == 0 && plan.num_probs == probs,
         "places of probabilities");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  CheckPlaces(&rng);
  int64_t turn = 0;
  ForEachKernel([&](auto zero, Isa isa, const std::string& kernel) {
    for (const Case& c : kLossCases) {
      for (const RuleTraits& traits : kUpdateRules) {
        // Each case meets each rule on some kernel.
        if (turn++ % 4 != 0) continue;
        const int kind = c.batch + static_cast<int>(traits.rule);
        CheckTrainStep<decltype(zero)>(c, isa, traits.rule, kind % 2 == 0,
                                       kernel + " " + traits.name + NameOf(c),
                                       &rng, kind % 3 ? 0 : 0.125);
      }
    }
  });
  for (Isa isa : SupportedIsas()) {
    CheckStochastic(isa, 1, 64, &rng);
    CheckStochastic(isa, 40, 2, &rng);
  }
  return Summarize();
}
