// What the tests of searches (search.h) share: one of a batch, and the order of
// all classes, which is what it must begin with; and masks.

#ifndef TF_HSM_CC_CORE_API_SEARCH_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_SEARCH_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cc/core/api/class_mask.h"
#include "cc/core/api/example_search.h"
#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/search.h"

namespace tf_hsm {

template <typename A>
using Ranking = std::vector<RankedClass<A>>;

template <typename A>
struct Found {
  Ranking<A> classes;
  int64_t num_pruned = 0;
  int calls = 0;
};

template <typename T>
std::string Find(const GroupScorer<T>& scorer, const SearchOptions& options,
                 std::vector<Found<Accumulator<T>>>* found,
                 const Accumulator<T>* bounds = nullptr) {
  using A = Accumulator<T>;
  found->assign(scorer.num_examples, {});
  return FindBestClasses<T>(
      scorer, options,
      [&](int64_t example, const SearchResult<A>& result) {
        Found<A>& at = (*found)[example];
        at.classes.assign(result.classes, result.classes + result.num_classes);
        at.num_pruned = result.num_pruned;
        ++at.calls;
      },
      bounds);
}

template <typename T>
std::vector<Found<Accumulator<T>>> Find(
    const GroupScorer<T>& scorer, const SearchOptions& options,
    const Accumulator<T>* bounds = nullptr) {
  std::vector<Found<Accumulator<T>>> found;
  const std::string error = Find(scorer, options, &found, bounds);
  Expect(error.empty(), error);
  for (const auto& at : found) Expect(at.calls == 1, "one result per example");
  return found;
}

// The order of results.
template <typename A>
bool ComesFirst(const RankedClass<A>& a, const RankedClass<A>& b) {
  const A key_a = Key(a.log_prob), key_b = Key(b.log_prob);
  return key_a != key_b ? key_a > key_b : a.id < b.id;
}

// All classes of an example, best first, and of a batch.
template <typename A>
Ranking<A> Rank(const A* values, int64_t num_classes) {
  Ranking<A> ranking;
  for (int64_t c = 0; c < num_classes; ++c) ranking.push_back({values[c], c});
  std::sort(ranking.begin(), ranking.end(), ComesFirst<A>);
  return ranking;
}
template <typename T>
std::vector<Ranking<Accumulator<T>>> RankAll(const GroupScorer<T>& scorer) {
  const std::vector<Accumulator<T>> values = ClassValues(scorer);
  const int64_t classes = scorer.tree.num_classes;
  std::vector<Ranking<Accumulator<T>>> rankings;
  for (int64_t i = 0; i < scorer.num_examples; ++i) {
    rankings.push_back(Rank(values.data() + i * classes, classes));
  }
  return rankings;
}

template <typename A>
bool StartsWith(const Ranking<A>& ranking, const Ranking<A>& start) {
  return start.size() <= ranking.size() &&
         std::equal(start.begin(), start.end(), ranking.begin(),
                    [](const auto& a, const auto& b) {
                      return a.id == b.id && a.log_prob == b.log_prob;
                    });
}

template <typename A>
bool SameFound(const Found<A>& a, const Found<A>& b) {
  return a.classes.size() == b.classes.size() &&
         StartsWith(a.classes, b.classes) && a.num_pruned == b.num_pruned;
}

// The ranks of the classes at or below each row, [rows, 2], from each leaf up.
inline std::vector<int64_t> SpansOf(const TreeView& tree) {
  std::vector<int64_t> spans(2 * tree.num_rows);
  for (int64_t row = 0; row < tree.num_rows; ++row) {
    spans[2 * row] = tree.num_classes;
  }
  for (int64_t c = 0; c < tree.num_classes; ++c) {
    const int64_t rank = tree.class_ranks[c];
    for (int64_t row : PathOf(tree, c)) {
      spans[2 * row] = std::min(spans[2 * row], rank);
      spans[2 * row + 1] = std::max(spans[2 * row + 1], rank + 1);
    }
  }
  return spans;
}

// A mask and its arrays.
struct OwnedMask : RankLists {
  std::vector<int64_t> spans;

  ClassMask view() const {
    return {spans.data(), ranks.data(), static_cast<int64_t>(ranks.size()),
            splits.data(), static_cast<int64_t>(splits.size()) - 1};
  }
};

// Lists of which each class is in with this chance, some of them twice.
template <typename Rng>
OwnedMask RandomMask(const TreeView& tree, int64_t lists, double chance,
                     Rng* rng) {
  std::uniform_real_distribution<double> uniform(0, 1);
  OwnedMask mask;
  mask.spans = SpansOf(tree);
  for (int64_t list = 0; list < lists; ++list) {
    for (int64_t rank = 0; rank < tree.num_classes; ++rank) {
      if (uniform(*rng) >= chance) continue;
      mask.ranks.insert(mask.ranks.end(), 1 + (*rng)() % 8 / 7, rank);
    }
    mask.splits.push_back(mask.ranks.size());
  }
  return mask;
}

// Checks what a search by `options` has found for an example whose classes have
// the log-probabilities `values`, NaN among them. `mask` and `bound` are null
// for a search without.
template <typename A>
void CheckFound(const TreeView& tree, const A* values, int64_t example,
                const SearchOptions& options, const OwnedMask* mask,
                const A* bound, const Found<A>& found,
                const std::string& name) {
  const Ranking<A>& best = found.classes;
  Ranking<A> wanted;
  for (const RankedClass<A>& c : Rank(values, tree.num_classes)) {
    if (mask == nullptr || mask->Has(example, tree.class_ranks[c.id])) {
      wanted.push_back(c);
    }
  }
  const int64_t count = best.size();
  const int64_t most = std::min<int64_t>(options.max_classes, wanted.size());
  Expect(count == most ||
             ((options.max_mass <= 1 || bound != nullptr) && count <= most),
         name + ": how many are found");
  std::set<int64_t> ids;
  for (int64_t k = 0; k < count; ++k) {
    const auto& [log_prob, id] = best[k];
    const A key = Key(log_prob);
    Near(log_prob, values[id], 0, name + ": log p");
    Expect(ids.insert(id).second, name + ": a class twice");
    Expect(mask == nullptr || mask->Has(example, tree.class_ranks[id]),
           name + ": a class that is not allowed");
    Expect(k == 0 || Key(best[k - 1].log_prob) >= key, name + ": the order");
    Expect(bound == nullptr || key >= Key(*bound), name + ": below the bound");
    if (options.beam_width > 0 || k >= most) continue;
    // Any class without a probability is as good as another one.
    Expect(key == Key(wanted[k].log_prob) &&
               (id == wanted[k].id || std::isinf(key)),
           name + ": not the best");
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SEARCH_TEST_SUPPORT_H_
