// Log-probabilities of given classes: every ISA and element type against the
// scalar reference and, to the bit, against those of all classes, on random
// trees and ragged sizes; classes that are none; and trees that are none.

#include "cc/core/api/class_log_probs.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// `count` classes of each example, with repetitions.
std::vector<int64_t> DrawClasses(int64_t examples, int64_t count,
                                 int64_t num_classes, std::mt19937* rng) {
  std::vector<int64_t> classes(examples * count);
  for (int64_t& c : classes) c = (*rng)() % num_classes;
  return classes;
}

// A forest also gets class -1 now and then, which is below none of its roots.
template <typename T>
std::vector<int64_t> DrawClasses(const Head<T>& head, int64_t count,
                                 std::mt19937* rng) {
  std::vector<int64_t> classes =
      DrawClasses(head.batch, count, head.tree().num_classes, rng);
  for (int64_t& c : classes) {
    if (!head.starts.empty() && (*rng)() % 5 == 0) c = -1;
  }
  return classes;
}

template <typename T>
std::vector<Accumulator<T>> Run(const GroupScorer<T>& scorer,
                                const std::vector<int64_t>& classes,
                                int64_t count) {
  std::vector<Accumulator<T>> log_probs(classes.size(), NAN);
  const std::string error =
      ClassLogProbs<T>(scorer, classes.data(), count, log_probs.data());
  Expect(error.empty(), error);
  return log_probs;
}

template <typename T>
void Check(const Head<T>& head, int64_t count, Isa isa, const std::string& name,
           std::mt19937* rng) {
  using A = Accumulator<T>;
  const TreeView tree = head.tree();
  const std::vector<int64_t> classes = DrawClasses(head, count, rng);
  const std::vector<A> got = Run(head.On(isa), classes, count);
  Expect(SameBits(got, Run(head.On(isa, Reversed), classes, count)),
         name + ": the order of items changes the bits");
  const std::vector<A> all = ClassValues(head.On(isa));
  std::vector<A> same;
  for (size_t at = 0; at < classes.size(); ++at) {
    same.push_back(classes[at] < 0
                       ? -INFINITY
                       : all[at / count * tree.num_classes + classes[at]]);
  }
  Expect(SameBits(got, same), name + ": other bits than those of all classes");
}

template <typename T>
void CheckReference(const Head<T>& head, bool has_sigmoids, Isa isa,
                    const std::string& name, std::mt19937* rng) {
  const TreeView tree = head.tree();
  constexpr int64_t kCount = 9;
  const std::vector<int64_t> classes = DrawClasses(head, kCount, rng);
  GroupScorer<T> scorer = head.On(isa);
  scorer.has_sigmoids = has_sigmoids;
  if (has_sigmoids) scorer.logit_soft_cap = 0;
  const auto got = Run(scorer, classes, kCount);
  const std::vector<double> want = WantedLogProbs(head, has_sigmoids);
  const double tolerance = Tolerance(head);
  for (size_t at = 0; at < classes.size(); ++at) {
    if (classes[at] < 0) continue;
    const int64_t row = tree.class_rows[classes[at]];
    Near(got[at], want[at / kCount * tree.num_rows + row], tolerance,
         name + " log p");
  }
}

// Parameters that are not finite.
template <typename T>
void CheckSpecial(Isa isa, const std::string& name, std::mt19937* rng) {
  for (int round = 0; round < 12; ++round) {
    Head<T> head = RandomHead<T>({9, 18, 20, 5, 0.5}, true, rng);
    T* at = round % 2 == 0 ? &head.biases[(*rng)() % head.biases.size()]
                           : &head.weights[(*rng)() % head.weights.size()];
    *at = FromDouble<T>(kSpecialValues[round / 2 % 3]);
    for (bool has_sigmoids : {false, true}) {
      CheckReference(head, has_sigmoids, isa, name + " special", rng);
    }
  }
}

void CheckErrors(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({2, 5, 8, 4, 0.5}, true, rng);
  const TreeView tree = head.tree();
  const int64_t none[] = {-1, tree.num_classes, INT64_MIN, INT64_MAX};
  for (int64_t value : none) {
    std::vector<int64_t> classes =
        DrawClasses(head.batch, 3, tree.num_classes, rng);
    classes[4] = value;
    std::vector<float> log_probs(classes.size());
    const std::string error = ClassLogProbs<float>(
        head.On(Isa::kBaseline), classes.data(), 3, log_probs.data());
    Expect(error == "classes[4] = " + std::to_string(value) +
                        " is outside [0, " + std::to_string(tree.num_classes) +
                        "), the tree's classes",
           error);
  }
  Expect(Run(head.On(Isa::kBaseline), {}, 0).empty(), "no classes");

  // A path that ends at a group of no root.
  OwnedTree forest = RandomForest(3, 4, 5, 0.5, rng);
  forest.roots[1] -= forest.roots[1] > 1 ? 1 : -1;
  const Head<float> other = RandomHead<float>(forest, 1, 3, true, rng);
  std::vector<int64_t> all(forest.class_rows.size());
  for (size_t c = 0; c < all.size(); ++c) all[c] = c;
  std::vector<float> log_probs(all.size());
  const std::string error = ClassLogProbs<float>(
      other.On(Isa::kBaseline), all.data(), all.size(), log_probs.data());
  Expect(error.find(" = -1, but the group is not one of root_groups") !=
             std::string::npos,
         error);
}

void CheckGarbage(std::mt19937* rng) {
  CheckCorrupted(true, 400, rng, [&](const Head<float>& head) {
    const std::vector<int64_t> classes =
        DrawClasses(head.batch, 6, head.tree().num_classes, rng);
    std::vector<float> log_probs(classes.size());
    return !ClassLogProbs<float>(head.On(Isa::kBaseline), classes.data(), 6,
                                 log_probs.data())
                .empty();
  });
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(const Head<T>& head, Isa isa, const std::string& name,
                     bool, std::mt19937* rng) {
    for (int64_t count : {1, 7, 100}) Check(head, count, isa, name, rng);
    CheckReference(head, false, isa, name, rng);
    if (head.owned.pinned) return;
    CheckReference(head, true, isa, name + " label tree", rng);
  }
  template <typename T>
  static void OfType(Isa isa, const std::string& kernel, std::mt19937* rng) {
    CheckSpecial<T>(isa, kernel, rng);
  }
  static void Others(std::mt19937* rng) {
    // So many paths, and so long ones, that they are held in parts.
    const Isa best = SupportedIsas().back();
    Check(RandomHead<float>({1100, 2, 9, 4, 0.5}, true, rng), 500, best,
          "many classes", rng);
    Check(RandomHead<float>({3, 5, 10000, 3, 0}, true, rng), 120, best,
          "10,000 levels", rng);
    CheckErrors(rng);
    CheckGarbage(rng);
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
