// What the tests of predictions (group_scores.h) share: a random tree with
// parameters and a batch of inputs, and what is known about it.

#ifndef TF_HSM_CC_CORE_API_GROUP_SCORES_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_GROUP_SCORES_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores.h"
#include "cc/core/api/inputs.h"
#include "cc/core/api/log_probs.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

constexpr double kSpecialValues[] = {-INFINITY, INFINITY, NAN};

// Parameters of a tree, and a batch.
template <typename T>
struct Head {
  using A = Accumulator<T>;
  OwnedTree owned;
  int64_t batch = 0;
  int64_t width = 0;
  std::vector<T> weights, biases, x;  // biases are empty if there are none
  std::vector<A> packed;              // x
  std::vector<A> starts;              // [batch, roots]; empty of one tree
  double soft_cap = 0;

  TreeView tree() const { return owned.view(); }

  void Pack() {
    packed.resize(batch * Padded(width));
    PackInputs(nullptr, batch, x.data(), width, Serial, packed.data());
  }

  GroupScorer<T> On(Isa isa, const Parallel& parallel = Serial) const {
    GroupScorer<T> scorer;
    scorer.tree = tree();
    scorer.weights = weights.data();
    scorer.biases = DataOrNull(biases);
    scorer.width = width;
    scorer.x = packed.data();
    scorer.root_log_probs = DataOrNull(starts);
    scorer.num_examples = batch;
    scorer.logit_soft_cap = soft_cap;
    scorer.table = &KernelTableFor<T>(isa);
    scorer.parallel = parallel;
    return scorer;
  }

  // Likewise for the examples [begin, end).
  GroupScorer<T> On(Isa isa, int64_t begin, int64_t end) const {
    GroupScorer<T> scorer = On(isa);
    scorer.x += begin * Padded(width);
    if (!starts.empty()) {
      scorer.root_log_probs += begin * scorer.tree.num_roots;
    }
    scorer.num_examples = end - begin;
    return scorer;
  }
};

template <typename T, typename Rng>
Head<T> RandomHead(OwnedTree owned, int64_t batch, int64_t width,
                   bool with_bias, Rng* rng) {
  Head<T> head;
  head.owned = std::move(owned);
  head.batch = batch;
  head.width = width;
  const int64_t rows = head.tree().num_weight_rows();
  const int64_t roots = head.tree().num_roots;
  head.weights = Draw<T>(rows * width, 32, rng);
  head.biases = Draw<T>(with_bias ? rows : 0, 64, rng);
  head.x = Draw<T>(batch * width, 64, rng);
  head.Pack();
  if (roots > 1) {
    head.starts = Draw<Accumulator<T>>(batch * roots, 64, rng);
    for (auto& start : head.starts) start -= 2;
  }
  return head;
}

template <typename T, typename Rng>
Head<T> RandomHead(const Case& c, bool with_bias, Rng* rng) {
  Head<T> head =
      RandomHead<T>(RandomForest(c, rng), c.batch, c.width, with_bias, rng);
  head.soft_cap = c.soft_cap;
  return head;
}

// log p of all nodes, [batch, rows], from the scalar reference.
template <typename T>
std::vector<double> WantedLogProbs(const Head<T>& head,
                                   bool has_sigmoids = false) {
  return ReferenceBatchLogProbs(head.tree(), head.batch, head.width,
                                ToDoubles(head.weights), ToDoubles(head.biases),
                                ToDoubles(head.x), ToDoubles(head.starts),
                                head.soft_cap, has_sigmoids);
}

// log p of all classes, [examples, classes], from LogProbs: the numbers that
// every way down the tree must give, to the bit.
template <typename T>
std::vector<Accumulator<T>> ClassValues(const GroupScorer<T>& scorer) {
  using A = Accumulator<T>;
  std::vector<int64_t> levels;
  const std::string error = FindLevels(scorer.tree, &levels);
  Expect(error.empty(), error);
  std::vector<A> values(scorer.num_examples * scorer.tree.num_classes, NAN);
  std::vector<A> groups(scorer.num_examples * scorer.tree.num_groups, NAN);
  LogProbs<T>(scorer, levels, {false, values.data(), groups.data()});
  return values;
}

// The rows of the longest path.
inline int64_t Depth(const TreeView& tree) {
  std::vector<int64_t> depths;  // of groups
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    const int64_t parent = tree.group_parents[g];
    depths.push_back(parent < 0 ? 1 : depths[tree.row_groups[parent]] + 1);
  }
  return *std::max_element(depths.begin(), depths.end());
}

// A group whose only row is switched off has no distribution.
inline bool HasSiblings(const TreeView& tree, int64_t row) {
  const int64_t* offsets = tree.group_offsets + tree.row_groups[row];
  return offsets[1] - offsets[0] > 1;
}

// The tolerance of a log-probability, relative to 1 and its size. A logit sums
// `width` products below 1/2; a path adds `depth` terms, and a start.
template <typename T>
double Tolerance(const Head<T>& head) {
  const double unit = std::ldexp(1.0, sizeof(Accumulator<T>) == 4 ? -24 : -53);
  const int64_t terms = Depth(head.tree()) + !head.starts.empty();
  return unit * (4 * head.width + 64) * terms;
}

// Overwrites up to three numbers of a tree's arrays, but for the roots, which
// every op checks first.
template <typename Rng>
void Corrupt(OwnedTree* tree, Rng* rng) {
  std::vector<int64_t>* const arrays[] = {&tree->offsets,    &tree->parents,
                                          &tree->class_rows, &tree->row_groups,
                                          &tree->row_below,  &tree->row_below};
  const int64_t values[] = {INT64_MIN,
                            INT64_MAX,
                            -1 - static_cast<int64_t>((*rng)() % 9),
                            static_cast<int64_t>((*rng)() % 9),
                            static_cast<int64_t>(tree->parents.size()),
                            static_cast<int64_t>(tree->row_below.size()),
                            ~static_cast<int64_t>(tree->class_rows.size())};
  for (int64_t left = 1 + (*rng)() % 3; left > 0; --left) {
    std::vector<int64_t>& array = *arrays[(*rng)() % std::size(arrays)];
    array[(*rng)() % array.size()] = values[(*rng)() % std::size(values)];
  }
}

// Arrays that hold anything give an error or an answer: among 4,000 corrupted
// trees, has_error(head) is true for more than `least`, but not for all.
template <typename HasError>
void CheckCorrupted(bool with_bias, int64_t least, std::mt19937* rng,
                    const HasError& has_error) {
  int64_t errors = 0;
  constexpr int64_t kRounds = 4000;
  for (int64_t round = 0; round < kRounds; ++round) {
    Head<float> head = RandomHead<float>({3, 5, 8, 4, 0.5}, with_bias, rng);
    Corrupt(&head.owned, rng);
    errors += has_error(head);
  }
  Expect(errors > least && errors < kRounds, "garbage: errors");
}

// Ragged widths, with and without a group that is wider than a vector; a chain
// of groups, one group, groups of one.
constexpr Case kHeadCases[] = {
    {1, 1, 1, 1, 0},
    {3, 0, 20, 4, 0.5},
    {50, 17, 40, 9, 0.3},
    {5, 15, 3, 4, 0.5},
    {60, 16, 20, 70, 0.1},
    {7, 300, 60, 13, 1},
    {9, 31, 50, 1, 1},
    {0, 5, 3, 3, 0.5},
    {2, 8, 3, 900, 0.01},
    {13, 33, 200, 2, 0.9},
    {2, 3, 400, 3, 0},
    // Forests: mixed, of deep trees, of single groups.
    {20, 9, 12, 5, 0.5, 4},
    {7, 6, 60, 2, 0.9, 3},
    {33, 17, 1, 30, 0, 40},
    // Pinned: narrow, wide, a chain of groups, a forest.
    {13, 7, 200, 2, 0.9, 1, 0, true},
    {50, 33, 90, 2, 0.5, 1, 0, true},
    {2, 3, 400, 2, 0, 1, 0, true},
    {9, 18, 20, 2, 0.6, 4, 0, true},
    // With a soft cap.
    FlatCase(20, 17, 40, 2, 0),
    FlatCase(3, 300, 60, 1.5, 0)};

// The main function of a test. For every ISA and element type, it calls
// Checks::OfHead(head, isa, name, bias, rng) for the cases, without and with a
// bias, and then Checks::OfType<T>(isa, name, rng); at the end
// Checks::Others(rng).
template <typename Checks>
int RunChecks() {
  std::mt19937 rng(1);
  ForEachKernel([&](auto element, Isa isa, const std::string& kernel) {
    using T = decltype(element);
    for (const Case& c : kHeadCases) {
      for (bool bias : {false, true}) {
        Checks::OfHead(RandomHead<T>(c, bias, &rng), isa,
                       kernel + NameOf(c) + (bias ? " biased" : ""), bias,
                       &rng);
      }
    }
    Checks::template OfType<T>(isa, kernel, &rng);
  });
  Checks::Others(&rng);
  return Summarize();
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_GROUP_SCORES_TEST_SUPPORT_H_
