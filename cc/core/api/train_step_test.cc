// The training step in place: every ISA, element type and update rule against
// the scalar reference, over two steps on random trees, with partial gradients
// and without, with weight decay and without; the same bits whatever the order
// in which items run; and the rounding of bfloat16 keeps the mean.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
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
  want.state = MakeState<double, double>(UpdateRule::kSgd, tree.num_rows, width,
                                         ToDoubles(w), {});
  ReferenceStep(tree, labels, ToDoubles(x), width,
                std::vector<double>(batch, grad), UpdateRule::kSgd, &want);
  std::vector<std::vector<bfloat16>> results;
  for (uint64_t seed : {7, 7, 8}) {
    Run<bfloat16> run;
    run.state = MakeState<bfloat16, float>(UpdateRule::kSgd, tree.num_rows,
                                           width, w, {});
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
  const Case cases[] = {{1, 1, 1, 1, 0},
                        {5, 16, 3, 4, 0.5},
                        {33, 17, 40, 9, 0.3},
                        {90, 50, 20, 90, 0.1},
                        {97, 64, 200, 2, 0.9},
                        {70, 37, 60, 13, 1},
                        {0, 5, 3, 3, 0.5},
                        {6, 1500, 3, 12, 0.2},
                        {150, 77, 3, 500, 0.01},
                        {131, 31, 90, 8, 0.9},
                        {60, 33, 9, 20, 0.5, 5},
                        {170, 20, 40, 3, 0.8, 7},
                        {90, 17, 1, 40, 0, 40},
                        // Flat trees with a soft cap, a z-loss or both.
                        FlatCase(70, 17, 300, 2, 0),
                        FlatCase(33, 77, 90, 0, 0.125),
                        FlatCase(130, 20, 900, 1.5, 0.0625),
                        FlatCase(9, 256, 40, 3, 0.125),
                        FlatCase(33, 17, 60, 0, 0.125, 0.25),
                        FlatCase(33, 17, 60, 0, 0.125, 0.25, true),
                        // With label smoothing.
                        {97, 64, 200, 2, 0.9, 1, 0.25},
                        {131, 31, 90, 8, 0.9, 1, 0.5},
                        {60, 33, 9, 70, 0.5, 5, 0.125},
                        // Towards a prior.
                        {97, 64, 200, 2, 0.9, 1, 0.25, false, true},
                        {131, 31, 90, 8, 0.9, 1, 0.5, false, true},
                        {60, 33, 9, 70, 0.5, 5, 0.125, false, true},
                        {123, 31, 100, 2, 0.9, 1, 0.25, true, true},
                        // Pinned: one block of examples and several; a forest.
                        {1, 1, 1, 2, 0, 1, 0, true},
                        {29, 20, 90, 2, 0.7, 1, 0, true},
                        {123, 64, 300, 2, 0.9, 1, 0, true},
                        {170, 37, 40, 2, 0.5, 3, 0, true},
                        {200, 5, 150, 2, 0, 1, 0, true},
                        {123, 31, 100, 2, 0.9, 1, 0.25, true},
                        // Spans of several blocks.
                        {1100, 3, 90, 2, 0.7},
                        {1600, 2, 300, 2, 0.6, 1, 0, true},
                        {1030, 4, 30, 5, 0.6, 2}};
  CheckPlaces(&rng);
  for (Isa isa : SupportedIsas()) {
    for (const Case& c : cases) {
      for (const RuleTraits& traits : kUpdateRules) {
        const UpdateRule rule = traits.rule;
        // They differ from others in the function of one number.
        if (rule == UpdateRule::kRmspropMomentum) continue;
        if (rule == UpdateRule::kRmspropCentered) continue;
        const bool bias = (c.batch + static_cast<int>(rule)) % 2 == 0;
        const std::string name = std::string(IsaName(isa)) + " rule " +
                                 std::to_string(static_cast<int>(rule)) +
                                 " B=" + std::to_string(c.batch) +
                                 " D=" + std::to_string(c.width) +
                                 (c.pinned ? " pinned " : " ");
        const double decay = (c.batch + static_cast<int>(rule)) % 3 ? 0 : 0.125;
        const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
        CheckTrainStep<double>(c, isa, f64, f64, rule, bias, name + "double",
                               &rng, decay);
        CheckTrainStep<float>(c, isa, f32, f32, rule, bias, name + "float",
                              &rng, decay);
        CheckTrainStep<bfloat16>(c, isa, std::ldexp(1.0, -8), f32, rule, bias,
                                 name + "bfloat16", &rng, decay);
        CheckTrainStep<half>(c, isa, std::ldexp(1.0, -11), f32, rule, bias,
                             name + "half", &rng, decay);
      }
    }
    CheckStochastic(isa, 1, 64, &rng);
    CheckStochastic(isa, 40, 2, &rng);
    std::printf("%s: done\n", IsaName(isa));
  }
  return Summarize();
}
