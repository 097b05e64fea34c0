// The most probable classes: every ISA and element type against a sort of all
// classes, or of a mask's classes, to the bit, on random trees, many ties and
// ragged sizes; beams and masses against their definitions; batches of several
// parts; and the same bits whatever the order in which items run.

#include "cc/core/api/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/api/class_log_probs.h"
#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/search_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// The ranking of the allowed classes.
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

// A beam by its definition, over the log-probabilities of all nodes. It prefers
// the later one of equal groups.
template <typename A>
Found<A> WantedBeam(const TreeView& tree, const Ranking<A>& roots,
                    const A* node_values, int64_t k, int64_t beam_width) {
  Found<A> want;
  Ranking<A> open = roots, left_out;  // groups
  const auto could_matter = [&](const RankedClass<A>& group) {
    return static_cast<int64_t>(want.classes.size()) < k ||
           group.log_prob >= want.classes.back().log_prob;
  };
  while (!open.empty()) {
    std::sort(open.begin(), open.end(), [](const auto& a, const auto& b) {
      return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.id > b.id;
    });
    Ranking<A> below;
    int64_t opened = 0;
    Ranking<A> leaves = want.classes;
    for (const RankedClass<A>& group : open) {
      if (!could_matter(group)) continue;
      if (opened == beam_width) {
        left_out.push_back(group);
        continue;
      }
      ++opened;
      for (int64_t row = tree.group_offsets[group.id];
           row < tree.group_offsets[group.id + 1]; ++row) {
        const int64_t at = tree.row_below[row];
        (at < 0 ? leaves : below)
            .push_back({node_values[row], at < 0 ? ~at : at});
      }
    }
    std::sort(leaves.begin(), leaves.end(), ComesFirst<A>);
    if (static_cast<int64_t>(leaves.size()) > k) leaves.resize(k);
    want.classes = leaves;
    open = below;
    open.erase(std::remove_if(open.begin(), open.end(),
                              [&](const auto& g) { return !could_matter(g); }),
               open.end());
    if (open.empty() && static_cast<int64_t>(want.classes.size()) < k) {
      open.swap(left_out);
    }
  }
  want.num_pruned =
      std::count_if(left_out.begin(), left_out.end(), could_matter);
  return want;
}

// The roots' groups and where they start.
template <typename T>
Ranking<Accumulator<T>> RootsOf(const GroupScorer<T>& scorer, int64_t example) {
  Ranking<Accumulator<T>> roots;
  for (int64_t r = 0; r < scorer.tree.num_roots; ++r) {
    roots.push_back({scorer.Start(example, r), scorer.tree.root_group(r)});
  }
  return roots;
}

template <typename T>
void CheckBeams(const Head<T>& head, Isa isa, const std::string& name) {
  using A = Accumulator<T>;
  const TreeView tree = head.tree();
  const GroupScorer<T> scorer = head.On(isa);
  std::vector<int64_t> levels;
  FindLevels(tree, &levels);
  std::vector<A> values(head.batch * tree.num_rows);
  std::vector<A> groups(head.batch * tree.num_groups);
  LogProbs<T>(scorer, levels, {true, values.data(), groups.data()});
  for (int64_t k : {int64_t{1}, 1 + tree.num_classes / 4, tree.num_classes}) {
    SearchOptions options;
    options.max_classes = k;
    const auto exact = Find(scorer, options);
    for (int64_t width : {int64_t{1}, int64_t{3}, tree.num_groups}) {
      options.beam_width = width;
      const auto found = Find(scorer, options);
      for (int64_t i = 0; i < head.batch; ++i) {
        const Found<A> want =
            WantedBeam(tree, RootsOf(scorer, i),
                       values.data() + i * tree.num_rows, k, width);
        const std::string what =
            name + " k=" + std::to_string(k) + " beam " + std::to_string(width);
        Expect(SameFound(found[i], want), what);
        // Nothing that could matter was left out: the result is exact.
        Expect(found[i].num_pruned > 0 || SameFound(found[i], exact[i]),
               what + " is exact");
        Expect(width < tree.num_groups || found[i].num_pruned == 0,
               what + " leaves nothing out");
      }
    }
  }
}

// The fewest best classes whose probabilities reach a mass, at most k.
template <typename T>
void CheckMasses(const Head<T>& head, Isa isa, const std::string& name) {
  using A = Accumulator<T>;
  const GroupScorer<T> scorer = head.On(isa);
  const std::vector<Ranking<A>> rankings = RankAll(scorer);
  const int64_t classes = scorer.tree.num_classes;
  for (double mass : {1e-20, 0.01, 0.5, 0.99, 1.0}) {
    for (int64_t k : {1 + classes / 4, classes}) {
      SearchOptions options;
      options.max_classes = k;
      options.max_mass = mass;
      const auto found = Find(scorer, options);
      for (int64_t i = 0; i < head.batch; ++i) {
        const std::string what =
            name + " mass " + std::to_string(mass) + " k=" + std::to_string(k);
        const Ranking<A>& got = found[i].classes;
        Expect(StartsWith(rankings[i], got), what + " are not the best");
        double sum = 0, without_last = 0;
        for (const RankedClass<A>& c : got) {
          without_last = sum;
          sum += std::exp(static_cast<double>(c.log_prob));
        }
        const int64_t count = got.size();
        constexpr double kRounding = 1e-12;
        Expect(count == k || sum >= mass - kRounding, what + " is not reached");
        Expect(count > 0 && count <= k &&
                   (count == 1 || without_last < mass + kRounding),
               what + " is reached with fewer");
      }
    }
  }
}

// A bound of each example: at a class, between two, minus infinity, infinity,
// NaN.
template <typename A>
std::vector<A> DrawBounds(const std::vector<Ranking<A>>& rankings,
                          std::mt19937* rng) {
  std::vector<A> bounds;
  for (size_t i = 0; i < rankings.size(); ++i) {
    const Ranking<A>& ranking = rankings[i];
    A bound = i % 2 == 0 ? 0 : A(1) / 64;
    if (!ranking.empty()) bound += ranking[(*rng)() % ranking.size()].log_prob;
    if (i % 7 == 6) bound = kSpecialValues[i / 7 % 3];
    bounds.push_back(bound);
  }
  return bounds;
}

// Checks the best classes, and the best ones above a bound; with a mask, among
// its classes.
template <typename T>
void Check(const Head<T>& head, Isa isa, const std::string& name,
           const OwnedMask* owned, std::mt19937* rng) {
  using A = Accumulator<T>;
  const GroupScorer<T> scorer = head.On(isa);
  const TreeView tree = scorer.tree;
  std::vector<Ranking<A>> rankings = RankAll(scorer);
  SearchOptions options;
  ClassMask mask;
  if (owned != nullptr) {
    mask = owned->view();
    options.allowed = &mask;
    for (int64_t i = 0; i < head.batch; ++i) {
      rankings[i] = OnlyAllowed(rankings[i], tree, *owned, i);
    }
  }
  const std::vector<A> bounds = DrawBounds(rankings, rng);
  for (int64_t k : {int64_t{1}, std::min<int64_t>(tree.num_classes, 2),
                    1 + tree.num_classes / 3, tree.num_classes}) {
    options.max_classes = k;
    options.beam_width = 0;
    const std::string what = name + " k=" + std::to_string(k);
    const auto found = Find(scorer, options);
    const auto again = Find(head.On(isa, Reversed), options);
    for (int64_t i = 0; i < head.batch; ++i) {
      Ranking<A> want = rankings[i];
      want.resize(std::min<int64_t>(k, want.size()));
      ExpectSame(found[i].classes, want, what + " are not the best classes");
      Expect(found[i].num_pruned == 0, what + " leaves something out");
      Expect(SameFound(found[i], again[i]),
             what + ": the order of items changes the bits");
    }
    for (int64_t beam_width : {int64_t{0}, int64_t{2}, tree.num_groups}) {
      options.beam_width = beam_width;
      const bool is_wide = beam_width != 2;
      const auto above = Find(scorer, options, bounds.data());
      for (int64_t i = 0; is_wide && i < head.batch; ++i) {
        Ranking<A> want = found[i].classes;
        while (!want.empty() && want.back().log_prob < bounds[i]) {
          want.pop_back();
        }
        ExpectSame(above[i].classes, want, what + " above a bound");
      }
      if (owned == nullptr) continue;  // CheckBeams knows more
      const auto beam = Find(scorer, options);
      for (int64_t i = 0; i < head.batch; ++i) {
        const Ranking<A>& got = beam[i].classes;
        Expect(got.size() == found[i].classes.size(),
               what + ": a beam finds as many");
        ExpectSame(OnlyAllowed(got, tree, *owned, i), got,
                   what + ": a beam finds another class");
        Expect(!is_wide || beam[i].num_pruned == 0,
               what + ": a wide beam leaves something out");
        if (beam[i].num_pruned > 0) continue;
        ExpectSame(got, found[i].classes, what + ": an exact beam");
      }
    }
  }
}

// Roots of minus infinity and NaN: with bounds, nothing below them is found.
template <typename T>
void CheckRootsOfNoProbability(Isa isa, const std::string& name,
                               std::mt19937* rng) {
  using A = Accumulator<T>;
  Head<T> head = RandomHead<T>({12, 5, 6, 4, 0.5, 5}, true, rng);
  const std::vector<int64_t> roots = RootsOfGroups(head.tree());
  for (A& start : head.starts) {
    const int64_t kind = (*rng)() % 4;
    if (kind < 2) start = kSpecialValues[2 * kind];
  }
  const GroupScorer<T> scorer = head.On(isa);
  const TreeView tree = scorer.tree;
  const std::vector<Ranking<A>> rankings = RankAll(scorer);
  const std::vector<A> none(head.batch, -std::numeric_limits<A>::infinity());
  SearchOptions options;
  options.max_classes = tree.num_classes;
  const auto all = Find(scorer, options);
  const auto some = Find(scorer, options, none.data());
  for (int64_t i = 0; i < head.batch; ++i) {
    Ranking<A> want;
    for (const RankedClass<A>& c : rankings[i]) {
      const int64_t root = roots[tree.row_groups[tree.class_rows[c.id]]];
      if (Key(scorer.Start(i, root)) > none[i]) want.push_back(c);
    }
    Expect(static_cast<int64_t>(all[i].classes.size()) == tree.num_classes &&
               StartsWith(all[i].classes, want),
           name + " all classes, those below no probability last");
    ExpectSame(some[i].classes, want,
               name + " classes below no probability are not found");
  }
}

// Parameters that are not finite: classes of minus infinity and NaN come after
// all others, and only for want of others.
template <typename T>
void CheckSpecial(Isa isa, const std::string& name, std::mt19937* rng) {
  using A = Accumulator<T>;
  for (int round = 0; round < 30; ++round) {
    Head<T> head = RandomHead<T>({5, 7, 9, 5, 0.5}, true, rng);
    for (int i = 0; i <= round % 3; ++i) {
      head.biases[(*rng)() % head.biases.size()] =
          FromDouble<T>(kSpecialValues[(*rng)() % 3]);
    }
    const GroupScorer<T> scorer = head.On(isa);
    const int64_t classes = scorer.tree.num_classes;
    const std::vector<A> log_probs = ClassValues(scorer);
    for (int64_t k : {1 + classes / 2, classes}) {
      for (bool by_mass : {false, true}) {
        for (int64_t beam_width : {0, 2}) {
          SearchOptions options;
          options.max_classes = k;
          options.beam_width = beam_width;
          if (by_mass) options.max_mass = 0.9;
          const auto found = Find(scorer, options);
          for (int64_t i = 0; i < head.batch; ++i) {
            CheckFound<A>(scorer.tree, log_probs.data() + i * classes, i,
                          options, nullptr, nullptr, found[i],
                          name + " special");
          }
        }
      }
    }
  }
}

// A batch that is searched in several parts.
template <typename T>
void CheckParts(Isa isa, const std::string& name, std::mt19937* rng) {
  const Head<T> head = RandomHead<T>({1100, 3, 12, 4, 0.5}, true, rng);
  Check(head, isa, name + " in parts", nullptr, rng);
  CheckBeams(head, isa, name + " in parts");
  CheckMasses(head, isa, name + " in parts");
}

// So many groups that fewer examples are searched at a time.
void CheckManyGroups(Isa isa, std::mt19937* rng) {
  const Head<float> head =
      RandomHead<float>({850, 2, 20000, 3, 0.6}, true, rng);
  SearchOptions options;
  options.max_classes = 3;
  const auto found = Find(head.On(isa), options);
  for (int64_t begin : {int64_t{0}, head.batch - 20}) {
    const auto rankings = RankAll(head.On(isa, begin, begin + 20));
    for (int64_t i = 0; i < 20; ++i) {
      Expect(StartsWith(rankings[i], found[begin + i].classes) &&
                 found[begin + i].classes.size() == 3,
             "many groups: not the best classes");
    }
  }
}

// 10,000 levels.
void CheckDeep(Isa isa, std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({2, 5, 10000, 3, 0}, true, rng);
  for (int64_t beam_width : {0, 1}) {
    SearchOptions options;
    options.beam_width = beam_width;
    for (int64_t k : {int64_t{5}, head.tree().num_classes}) {
      options.max_classes = k;
      const auto found = Find(head.On(isa), options);
      const auto rankings = RankAll(head.On(isa));
      for (int64_t i = 0; i < head.batch; ++i) {
        Expect(StartsWith(rankings[i], found[i].classes), "a deep tree");
      }
    }
  }
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(Head<T> head, Isa isa, std::string name, bool ties,
                     std::mt19937* rng) {
    if (ties) {
      std::fill(head.weights.begin(), head.weights.end(), T());
      for (T& b : head.biases) b = FromDouble<T>((*rng)() % 2);
      name += " ties";
    }
    Check(head, isa, name, nullptr, rng);
    // One list, and one of each example.
    for (const auto& [is_shared, chance] : {std::pair(true, 0.0),
                                            {false, 0.02},
                                            {false, 0.5},
                                            {true, 0.5},
                                            {false, 1.0}}) {
      const OwnedMask mask =
          RandomMask(head.tree(), is_shared ? 1 : head.batch, chance, rng);
      Check(head, isa,
            name + " chance " + std::to_string(chance) +
                (is_shared ? " shared" : ""),
            &mask, rng);
    }
    CheckBeams(head, isa, name);
    CheckMasses(head, isa, name);
  }
  template <typename T>
  static void OfType(Isa isa, const std::string& kernel, std::mt19937* rng) {
    CheckSpecial<T>(isa, kernel, rng);
    CheckRootsOfNoProbability<T>(isa, kernel, rng);
    if (isa == SupportedIsas().back()) CheckParts<T>(isa, kernel, rng);
  }
  static void Others(std::mt19937* rng) {
    CheckManyGroups(SupportedIsas().back(), rng);
    CheckDeep(SupportedIsas().back(), rng);
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
