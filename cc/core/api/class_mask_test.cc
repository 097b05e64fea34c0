// Searches among allowed classes: every ISA and element type against a sort of
// the allowed ones, to the bit, for one mask and for one per example, few
// classes to all of them; beams and bounds; how many groups are opened; and
// masks that are none.

#include "cc/core/api/class_mask.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/search_test_support.h"

namespace tf_hsm {
namespace {

// The scalar definition: the ranking of all classes without those that are not
// allowed.
template <typename A>
Ranking<A> OnlyAllowed(const Ranking<A>& ranking, const TreeView& tree,
                       const OwnedMask& mask, int64_t example) {
  Ranking<A> allowed;
  for (const RankedClass<A>& c : ranking) {
    if (mask.Has(example, tree.class_ranks[c.id])) allowed.push_back(c);
  }
  return allowed;
}

template <typename A>
void ExpectSame(const Ranking<A>& got, const Ranking<A>& want,
                const std::string& what) {
  Expect(got.size() == want.size() && StartsWith(want, got), what);
}

template <typename T>
void Check(const Head<T>& head, Isa isa, const std::string& name, double chance,
           bool is_shared, std::mt19937* rng) {
  using A = Accumulator<T>;
  const GroupScorer<T> scorer = head.On(isa);
  const TreeView tree = head.tree();
  const std::vector<Ranking<A>> rankings = RankAll(scorer);
  const OwnedMask owned =
      RandomMask(tree, is_shared ? 1 : head.batch, chance, rng);
  const ClassMask mask = owned.view();
  SearchOptions options;
  options.allowed = &mask;
  for (int64_t k : {int64_t{1}, 1 + tree.num_classes / 3, tree.num_classes}) {
    options.max_classes = k;
    const std::string what = name + " k=" + std::to_string(k) + " chance " +
                             std::to_string(chance) +
                             (is_shared ? " shared" : "");
    options.beam_width = 0;
    const auto found = Find(scorer, options);
    const auto again = Find(head.On(isa, Reversed), options);
    std::vector<Ranking<A>> wanted;
    std::vector<A> bounds;
    for (int64_t i = 0; i < head.batch; ++i) {
      Ranking<A>& want =
          wanted.emplace_back(OnlyAllowed(rankings[i], tree, owned, i));
      want.resize(std::min<int64_t>(k, want.size()));
      ExpectSame(found[i].classes, want, what);
      Expect(found[i].num_pruned == 0, what + " leaves something out");
      Expect(SameFound(found[i], again[i]),
             what + ": the order of items changes the bits");
      bounds.push_back(want.empty() ? A(0) : want[want.size() / 2].log_prob);
    }
    const auto above = Find(scorer, options, bounds.data());
    for (int64_t beam_width : {int64_t{2}, tree.num_groups}) {
      options.beam_width = beam_width;
      const auto beam = Find(scorer, options);
      for (int64_t i = 0; i < head.batch; ++i) {
        Expect(beam[i].classes.size() == wanted[i].size(),
               what + ": a beam finds as many");
        Expect(std::all_of(beam[i].classes.begin(), beam[i].classes.end(),
                           [&](const RankedClass<A>& c) {
                             return owned.Has(i, tree.class_ranks[c.id]);
                           }),
               what + ": a beam finds another class");
        Expect(beam_width < tree.num_groups || beam[i].num_pruned == 0,
               what + ": a wide beam leaves something out");
        if (beam[i].num_pruned > 0) continue;
        ExpectSame(beam[i].classes, wanted[i], what + ": an exact beam");
      }
    }
    for (int64_t i = 0; i < head.batch; ++i) {
      Ranking<A>& want = wanted[i];
      while (!want.empty() && want.back().log_prob < bounds[i]) want.pop_back();
      ExpectSame(above[i].classes, want, what + " above a bound");
    }
  }
}

// Counts the groups that a search opens, on one thread.
int64_t num_opened = 0;
void (*counted)(const GroupRows<float>&, float*, int64_t) = nullptr;
void CountAndScore(const GroupRows<float>& rows, float* out, int64_t stride) {
  num_opened += rows.num_examples;
  counted(rows, out, stride);
}

// A search for all allowed classes opens each group above such a class once,
// and no other; a search for fewer opens no more. Without a mask it opens all.
void CheckOpened(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({6, 9, 300, 6, 0.5}, true, rng);
  const TreeView tree = head.tree();
  KernelTable<float> table = KernelTableFor<float>(Isa::kBaseline);
  counted = table.log_softmax;
  table.log_softmax = CountAndScore;
  GroupScorer<float> scorer = head.On(Isa::kBaseline);
  scorer.table = &table;
  SearchOptions options;
  auto opened = [&](int64_t k, const ClassMask* mask) {
    options.max_classes = k;
    options.allowed = mask;
    num_opened = 0;
    Find(scorer, options);
    return num_opened;
  };
  Expect(opened(tree.num_classes, nullptr) == head.batch * tree.num_groups,
         "all groups are opened for all classes");
  int64_t last = head.batch * tree.num_groups;
  for (double chance : {0.3, 0.03, 0.003, 0.0}) {
    const OwnedMask owned = RandomMask(tree, head.batch, chance, rng);
    const ClassMask mask = owned.view();
    int64_t needed = 0;
    for (int64_t i = 0; i < head.batch; ++i) {
      std::vector<bool> is_above(tree.num_groups);
      for (int64_t c = 0; c < tree.num_classes; ++c) {
        if (!owned.Has(i, tree.class_ranks[c])) continue;
        for (int64_t row = tree.class_rows[c]; row >= 0;
             row = tree.group_parents[tree.row_groups[row]]) {
          is_above[tree.row_groups[row]] = true;
        }
      }
      needed += std::count(is_above.begin(), is_above.end(), true);
    }
    Expect(opened(tree.num_classes, &mask) == needed, "groups above a class");
    Expect(opened(1, &mask) <= needed, "no group without an allowed class");
    Expect(needed < last, "fewer classes, fewer groups");
    last = needed;
  }
  Expect(last == 0, "nothing is opened for no class");
}

// Lists that are none are an error that names the place; a row's span may be
// anything.
void CheckGarbage(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({4, 5, 12, 4, 0.5}, true, rng);
  const TreeView tree = head.tree();
  const int64_t odd[] = {INT64_MIN, -1, 0, 1, tree.num_classes, INT64_MAX};
  int64_t errors = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    OwnedMask owned =
        RandomMask(tree, round % 2 == 0 ? 1 : head.batch, 0.4, rng);
    std::vector<int64_t>* const arrays[] = {&owned.spans, &owned.ranks,
                                            &owned.splits};
    std::vector<int64_t>& array = *arrays[(*rng)() % 3];
    if (array.empty()) continue;
    array[(*rng)() % array.size()] = odd[(*rng)() % std::size(odd)];
    const ClassMask mask = owned.view();
    SearchOptions options;
    options.max_classes = 3;
    options.beam_width = (*rng)() % 3;
    options.allowed = &mask;
    std::vector<Found<float>> found;
    const std::string error = Find(head.On(Isa::kBaseline), options, &found);
    if (!error.empty()) {
      ++errors;
      Expect(error.rfind("allowed_", 0) == 0, error);
      continue;
    }
    for (const Found<float>& at : found) {
      Expect(at.calls == 1 && at.classes.size() <= 3, "garbage: a result");
    }
  }
  Expect(errors > kRounds / 4 && errors < kRounds, "garbage: errors");
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(Head<T> head, Isa isa, std::string name, bool ties,
                     std::mt19937* rng) {
    if (ties) {
      std::fill(head.weights.begin(), head.weights.end(), T());
      name += " ties";
    }
    Check(head, isa, name, 0, /*is_shared=*/true, rng);
    Check(head, isa, name, 0.02, /*is_shared=*/false, rng);
    Check(head, isa, name, 0.5, /*is_shared=*/false, rng);
    Check(head, isa, name, 0.5, /*is_shared=*/true, rng);
    Check(head, isa, name, 1, /*is_shared=*/false, rng);
  }
  template <typename T>
  static void OfType(Isa, const std::string&, std::mt19937*) {}
  static void Others(std::mt19937* rng) {
    for (int i = 0; i < 5; ++i) CheckOpened(rng);
    CheckGarbage(rng);
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
