// Ranks of labels: the rank by its definition, in double; every ISA and element
// type against it and, to the bit, against the order of all classes; labels
// that are none or have no probability; and trees that are none.

#include "cc/core/api/label_ranks.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/search_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// The classes that are better than `log_prob`, and those that are as good with
// a smaller number than the label; NaN is better than nothing.
template <typename V>
int64_t ReferenceRank(const V* values, int64_t num_classes, V log_prob,
                      int64_t label) {
  int64_t rank = 0;
  for (int64_t c = 0; c < num_classes; ++c) {
    rank += values[c] > log_prob || (values[c] == log_prob && c < label);
  }
  return rank;
}

template <typename T>
std::vector<int64_t> Run(const GroupScorer<T>& scorer,
                         const std::vector<int64_t>& labels, int64_t k) {
  std::vector<int64_t> ranks(labels.size(), -7);
  const std::string error =
      LabelRanks<T>(scorer, labels.data(), k, ranks.data());
  Expect(error.empty(), error);
  return ranks;
}

// A label of each example: mostly one of its best classes, or any, or none.
template <typename A>
std::vector<int64_t> DrawLabels(const std::vector<Ranking<A>>& rankings,
                                std::mt19937* rng) {
  std::vector<int64_t> labels;
  for (const Ranking<A>& ranking : rankings) {
    const int64_t most = (*rng)() % 3 == 0 ? ranking.size() : 6;
    const int64_t at = (*rng)() % std::min<int64_t>(most, ranking.size());
    labels.push_back((*rng)() % 9 == 0 ? -1 : ranking[at].id);
  }
  return labels;
}

template <typename T>
void Check(const Head<T>& head, Isa isa, const std::string& name,
           std::mt19937* rng) {
  using A = Accumulator<T>;
  const GroupScorer<T> scorer = head.On(isa);
  const int64_t classes = scorer.tree.num_classes;
  const std::vector<A> values = ClassValues(scorer);
  const auto labels = DrawLabels(RankAll(scorer), rng);
  for (int64_t k : {int64_t{1}, 1 + classes / 3, classes}) {
    const std::string what = name + " k=" + std::to_string(k);
    const std::vector<int64_t> ranks = Run(scorer, labels, k);
    Expect(ranks == Run(head.On(isa, Reversed), labels, k),
           what + ": the order of items changes the ranks");
    for (int64_t i = 0; i < head.batch; ++i) {
      const A* its = values.data() + i * classes;
      const int64_t label = labels[i];
      const bool is_found = label >= 0 && std::isfinite(its[label]);
      const int64_t want =
          is_found ? ReferenceRank(its, classes, its[label], label) : k;
      Expect(ranks[i] == std::min(want, k),
             what + ": rank " + std::to_string(ranks[i]) + " in place of " +
                 std::to_string(want));
    }
  }
}

// Against log-probabilities in double, where none is close to the label's.
template <typename T>
void CheckReference(const Head<T>& head, Isa isa, const std::string& name,
                    std::mt19937* rng) {
  const TreeView tree = head.tree();
  const int64_t classes = tree.num_classes;
  const std::vector<double> rows = WantedLogProbs(head);
  const auto labels = DrawLabels(RankAll(head.On(isa)), rng);
  const std::vector<int64_t> ranks = Run(head.On(isa), labels, classes);
  for (int64_t i = 0; i < head.batch; ++i) {
    if (labels[i] < 0) continue;
    std::vector<double> values;
    for (int64_t c = 0; c < classes; ++c) {
      values.push_back(rows[i * tree.num_rows + tree.class_rows[c]]);
    }
    const double own = values[labels[i]];
    const double gap = Tolerance(head) * 2 * (1 + std::abs(own));
    const double* its = values.data();
    Expect(ReferenceRank(its, classes, own + gap, 0) <= ranks[i] &&
               ranks[i] <= ReferenceRank(its, classes, own - gap, classes),
           name + ": another rank than in double");
  }
}

// Parameters and roots that are not finite.
template <typename T>
void CheckSpecial(Isa isa, const std::string& name, std::mt19937* rng) {
  for (int round = 0; round < 24; ++round) {
    Head<T> head = RandomHead<T>({9, 18, 20, 5, 0.5, 1 + round % 2}, true, rng);
    const double special = kSpecialValues[round % 3];
    head.biases[(*rng)() % head.biases.size()] = FromDouble<T>(special);
    for (auto& start : head.starts) {
      if ((*rng)() % 3 == 0) start = special < 0 ? special : NAN;
    }
    Check(head, isa, name + " special", rng);
  }
}

std::string ErrorOf(const Head<float>& head,
                    const std::vector<int64_t>& labels) {
  std::vector<int64_t> ranks(labels.size());
  return LabelRanks<float>(head.On(Isa::kBaseline), labels.data(),
                           head.tree().num_classes, ranks.data());
}

void CheckErrors(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({3, 5, 8, 4, 0.5}, true, rng);
  const int64_t classes = head.tree().num_classes;
  for (int64_t value : {int64_t{-2}, classes, INT64_MIN, INT64_MAX}) {
    const std::string error = ErrorOf(head, {-1, 0, value});
    Expect(error == "labels[2] = " + std::to_string(value) +
                        " is outside [0, " + std::to_string(classes) +
                        "), the tree's classes",
           error);
  }
  CheckCorrupted(true, 400, rng, [&](const Head<float>& forged) {
    const int64_t count = forged.tree().num_classes;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < forged.batch; ++i)
      labels.push_back((*rng)() % count);
    return !ErrorOf(forged, labels).empty();
  });

  // A group below two rows, level after level, doubles the paths.
  constexpr int64_t kLevels = 16;
  OwnedTree tree;
  for (int64_t g = 0; g < kLevels; ++g) {
    for (int64_t row : {2 * g, 2 * g + 1}) {
      tree.row_below.push_back(g + 1 < kLevels ? g + 1 : ~(row % 2));
      tree.row_groups.push_back(g);
    }
    tree.offsets.push_back(2 * (g + 1));
    tree.parents.push_back(2 * g - 1);
  }
  tree.class_rows.assign(kLevels + 1, 0);
  tree.class_rows[0] = 1;
  Head<float> many = RandomHead<float>(tree, 1, 0, true, rng);
  std::fill(many.biases.begin(), many.biases.end(), 0.0f);
  many.biases[1] = -99;
  const std::string error = ErrorOf(many, {0});
  Expect(error == "row_below: a group is below more than one row",
         "many paths: '" + error + "'");
  // A group that is none is not looked at.
  tree.row_below[0] = int64_t{1} << 43;
  Head<float> far = RandomHead<float>(tree, 1, 0, true, rng);
  far.biases = many.biases;
  Expect(ErrorOf(far, {0}).rfind("row_below[0]", 0) == 0,
         "a group that is none");
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(Head<T> head, Isa isa, const std::string& name, bool ties,
                     std::mt19937* rng) {
    CheckReference(head, isa, name, rng);
    Check(head, isa, name, rng);
    if (!ties) return;
    std::fill(head.weights.begin(), head.weights.end(), T());
    for (T& b : head.biases) b = FromDouble<T>((*rng)() % 2);
    Check(head, isa, name + " ties", rng);
  }
  template <typename T>
  static void OfType(Isa isa, const std::string& kernel, std::mt19937* rng) {
    CheckSpecial<T>(isa, kernel, rng);
  }
  static void Others(std::mt19937* rng) {
    // So many examples, and so long paths, that they are counted in parts.
    const Isa best = SupportedIsas().back();
    Check(RandomHead<float>({2100, 3, 12, 4, 0.5}, true, rng), best,
          "many examples", rng);
    Check(RandomHead<float>({300, 5, 10000, 3, 0}, true, rng), best,
          "10,000 levels", rng);
    CheckErrors(rng);
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
