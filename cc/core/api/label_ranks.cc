#include "cc/core/api/label_ranks.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "cc/core/api/class_log_probs.h"
#include "cc/core/api/example_search.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// An example opens one group beside the label's own, then in each round so many
// times as many as in the round before.
constexpr int64_t kWider = 4;

// An example's label, and the search for better classes.
template <typename A>
struct LabelSearch {
  GroupSpan own;  // the label's own group
  int64_t local;  // the label's row, counted in its group
  A log_prob;     // of the label's group; once that is open, of the label
  // Unopened groups, the roots and those at least as probable; the next to open
  // are the last.
  std::vector<Candidate<A>> open;
  int64_t num_next;
  int64_t num_opened;
};

// What a group has: better classes, and groups that could have some.
template <typename A>
struct Found {
  int64_t num_better;
  std::vector<Candidate<A>> groups;
};

// Whether any of the values, with `above` added, is at least `least`. NaN comes
// only where all values are NaN.
template <typename A>
bool AnyReaches(A least, A above, const A* values, int64_t count) {
  constexpr int64_t kLanes = 8;  // which a compiler takes for vectors
  A most[kLanes];
  std::fill_n(most, kLanes, values[0]);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      most[j] = std::max(most[j], values[i + j]);
    }
  }
  for (; i < count; ++i) most[0] = std::max(most[0], values[i]);
  return above + *std::max_element(most, most + kLanes) >= least;
}

// Counts the better classes of a group, up to k, and finds the groups below it
// to open. Its rows have these log-probabilities, given the group; the group
// has `above`. False if what is below a row cannot be.
template <typename A>
bool CountBetter(const TreeView& tree, int64_t group, A above,
                 const A* log_probs, const LabelSearch<A>& search,
                 int64_t label, int64_t k, Found<A>* found) {
  const int64_t first = tree.group_offsets[group];
  const int64_t fanout = tree.group_offsets[group + 1] - first;
  const A least = search.log_prob;
  found->num_better = std::isfinite(least) ? 0 : k;
  found->groups.clear();
  if (!AnyReaches(least, above, log_probs, fanout)) return true;
  for (int64_t i = 0; i < fanout && found->num_better < k; ++i) {
    const A log_prob = above + log_probs[i];
    if (!(log_prob >= least)) continue;
    const int64_t below = tree.row_below[first + i];
    if (!IsBelow(tree, group, below)) return false;
    if (below >= 0) {
      if (below != search.own.group) found->groups.push_back({log_prob, below});
    } else if (log_prob > least || ~below < label) {
      ++found->num_better;
    }
  }
  return true;
}

// Finds the groups of the labels, and their log-probabilities.
template <typename T>
std::string FindGroups(const GroupScorer<T>& scorer, const int64_t* labels,
                       std::vector<LabelSearch<Accumulator<T>>>* searches) {
  const TreeView& tree = scorer.tree;
  const int64_t count = scorer.num_examples;
  // The rows above the groups stand in place of classes.
  std::vector<int64_t> rows(count), classes(count);
  for (int64_t i = 0; i < count; ++i) {
    classes[i] = i;
    if (labels[i] == -1) continue;
    if (labels[i] < 0 || labels[i] >= tree.num_classes) {
      return OutOfRange("labels", i, labels[i], 0, tree.num_classes) +
             ", the tree's classes";
    }
    const int64_t row = tree.class_rows[labels[i]];
    if (row < 0 || row >= tree.num_rows) {
      return OutOfRange("class_rows", labels[i], row, 0, tree.num_rows);
    }
    LabelSearch<Accumulator<T>>& search = (*searches)[i];
    const std::string error = GroupOf(tree, row, tree.num_groups, &search.own);
    if (!error.empty()) return error;
    search.local = row - search.own.first_row;
    rows[i] = std::max<int64_t>(tree.group_parents[search.own.group], 0);
  }
  GroupScorer<T> of_rows = scorer;
  of_rows.tree.class_rows = rows.data();
  of_rows.tree.num_classes = count;
  std::vector<Accumulator<T>> log_probs(count);
  const std::string error =
      ClassLogProbs(of_rows, classes.data(), 1, log_probs.data());
  for (int64_t i = 0; i < count; ++i) (*searches)[i].log_prob = log_probs[i];
  return error;
}

// Takes what a round has found, and chooses at most `width` groups for the
// next.
template <typename A>
void ChooseNext(const Found<A>* found, const Found<A>* end, int64_t width,
                int64_t k, LabelSearch<A>* search, int64_t* rank) {
  std::vector<Candidate<A>>& open = search->open;
  for (; found < end; ++found) {
    *rank = std::min(*rank + found->num_better, k);
    open.insert(open.end(), found->groups.begin(), found->groups.end());
  }
  if (*rank == k) open.clear();
  search->num_next = std::min<int64_t>(width, open.size());
  search->num_opened += search->num_next;
  if (search->num_next < width) return;  // all are next
  std::nth_element(open.begin(), open.end() - width, open.end(), IsWorse<A>);
}

// Counts for the examples [begin, end).
template <typename T>
std::string CountFor(const GroupScorer<T>& scorer, const int64_t* labels,
                     int64_t k, int64_t begin, int64_t end,
                     LabelSearch<Accumulator<T>>* searches, int64_t* ranks) {
  using A = Accumulator<T>;
  constexpr int64_t kSearches = 8;  // of one work item
  const TreeView& tree = scorer.tree;
  std::vector<int64_t> active, starts = {0};  // starts: of each one's slots
  std::vector<Visit> visits;
  std::vector<A> above;         // by slot
  std::vector<Found<A>> found;  // by slot
  auto add_visit = [&](int64_t example, const Candidate<A>& group) {
    const int64_t slot = visits.size();
    visits.push_back({group.node, example, slot});
    above.push_back(group.log_prob);
  };
  // In the first round each example opens the label's own group.
  for (int64_t i = begin; i < end; ++i) {
    ranks[i] = labels[i] == -1 ? k : 0;
    if (labels[i] == -1) continue;
    LabelSearch<A>& search = searches[i];
    for (int64_t root = 0; root < tree.num_roots; ++root) {
      const Candidate<A> group = {scorer.Start(i, root), tree.root_group(root)};
      if (group.node == search.own.group) {
        search.log_prob = group.log_prob;
      } else {
        search.open.push_back(group);
      }
    }
    add_visit(i, {search.log_prob, search.own.group});
    active.push_back(i);
    starts.push_back(visits.size());
  }
  for (int64_t width = 1; !active.empty();
       width = std::min(width * kWider, kMaxOpen)) {
    if (found.size() < visits.size()) found.resize(visits.size());
    SortVisits(&visits);
    std::atomic<int64_t> bad_group{-1};
    const std::string error =
        Score<T>(scorer, visits, [&](int64_t i, const A* log_probs) {
          const Visit& visit = visits[i];
          LabelSearch<A>& search = searches[visit.example];
          if (visit.group == search.own.group) {
            search.log_prob += log_probs[search.local];
          }
          if (!CountBetter(tree, visit.group, above[visit.slot], log_probs,
                           search, labels[visit.example], k,
                           &found[visit.slot])) {
            bad_group = visit.group;
          }
        });
    if (!error.empty()) return error;
    if (bad_group >= 0) return NotBelow(tree, bad_group);
    const int64_t count = active.size();
    scorer.parallel((count + kSearches - 1) / kSearches, [&](int64_t item) {
      for (int64_t at = item * kSearches;
           at < std::min((item + 1) * kSearches, count); ++at) {
        ChooseNext(found.data() + starts[at], found.data() + starts[at + 1],
                   width, k, &searches[active[at]], &ranks[active[at]]);
      }
    });
    std::vector<int64_t> still_active;
    visits.clear();
    above.clear();
    starts.assign(1, 0);
    for (int64_t example : active) {
      LabelSearch<A>& search = searches[example];
      // Each group below a row comes after its own, and may still be no tree's.
      if (search.num_opened > tree.num_groups) {
        return "row_below: a group is below more than one row";
      }
      if (search.num_next == 0) continue;
      for (; search.num_next > 0; --search.num_next) {
        add_visit(example, search.open.back());
        search.open.pop_back();
      }
      still_active.push_back(example);
      starts.push_back(visits.size());
    }
    active.swap(still_active);
  }
  return "";
}

}  // namespace

template <typename T>
std::string LabelRanks(const GroupScorer<T>& scorer, const int64_t* labels,
                       int64_t k, int64_t* ranks) {
  std::vector<LabelSearch<Accumulator<T>>> searches(scorer.num_examples);
  std::string error = FindGroups(scorer, labels, &searches);
  const int64_t size =
      std::clamp(kMaxOpen / scorer.tree.num_groups, kMinExamples, kMaxExamples);
  for (int64_t begin = 0; begin < scorer.num_examples && error.empty();
       begin += size) {
    const int64_t end = std::min(begin + size, scorer.num_examples);
    error = CountFor(scorer, labels, k, begin, end, searches.data(), ranks);
  }
  return error;
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(LabelRanks, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
