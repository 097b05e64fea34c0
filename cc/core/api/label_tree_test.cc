// Losses, gradients and steps of label trees: every ISA and element type
// against the scalar reference, on random trees, label sets and ragged sizes;
// and the same bits whatever the order in which items run.

#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/label_tree_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// Logits far out on both sides: probabilities of 0 and 1, losses of |z| and of
// exp(-|z|), which is small but not nothing.
void CheckFar(Isa isa) {
  const OwnedTree owned = FlatTree(19);
  LabelPlan plan;
  const int64_t label = 3;
  Expect(MakeLabelPlan(owned.view(), &label, 1, 1, {-1}, Serial, &plan).empty(),
         "far");
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
                         Serial, &plan);
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
  ForEachKernel([&](auto zero, Isa isa, const std::string& kernel) {
    using T = decltype(zero);
    int at = 0;
    for (const Case& c : kLossCases) {
      if (!c.is_plain()) continue;
      // The most are planned in parts.
      for (int64_t count : {0, 1, 7, at == 0 ? 700 : 3}) {
        const RuleTraits& traits = kUpdateRules[at++ % std::size(kUpdateRules)];
        const std::string name =
            kernel + NameOf(c) + " M=" + std::to_string(count);
        CheckLabelTree<T>(c, count, isa, {}, count != 1, name, &rng);
        CheckLabelTree<T>(c, count, isa, traits.rule, count != 1,
                          name + " " + traits.name, &rng);
      }
    }
  });
  for (Isa isa : SupportedIsas()) CheckFar(isa);
  CheckErrors(&rng);
  return Summarize();
}
