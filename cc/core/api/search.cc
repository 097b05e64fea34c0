#include "cc/core/api/search.h"

#include <algorithm>
#include <atomic>

#include "cc/core/api/example_search.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Many examples share what they read, and the larger the groups are the more
// counts that they do it in few rounds.
Widths WidthsFor(const GroupSpan& root, int64_t num_examples) {
  constexpr int64_t kManyExamples = 32;
  constexpr int64_t kWideFanout = 64;
  if (num_examples < kManyExamples) return {1, 4};
  return root.fanout >= kWideFanout ? Widths{8, 32} : Widths{1, 16};
}

// The rows of a group that are allowed and of use to `search`; the best of its
// leaves only.
template <typename A>
bool Collect(const TreeView& tree, int64_t group, A above, const A* log_probs,
             const ExampleSearch<A>& search, int64_t max_classes,
             AllowedBelow allowed, std::vector<Candidate<A>>* found) {
  const int64_t first = tree.group_offsets[group];
  const int64_t fanout = tree.group_offsets[group + 1] - first;
  // Leaves, which come first, are cut to the best when they are this many.
  const int64_t most = std::min(max_classes, fanout) * 2 + 64;
  A least = search.least();
  int64_t leaves = 0;
  found->clear();
  auto cut = [&] {
    const auto begin = found->begin(), end = begin + max_classes;
    std::nth_element(begin, end - 1, begin + leaves, IsBetter<A>);
    least = std::max(least, Key((end - 1)->log_prob));
    found->erase(end, begin + leaves);
    leaves = max_classes;
  };
  for (int64_t k = 0; k < fanout; ++k) {
    const A log_prob = above + log_probs[k];
    if (log_prob < least || !allowed.Any(first + k, first + k)) continue;
    const int64_t below = tree.row_below[first + k];
    if (!IsBelow(tree, group, below)) return false;
    found->push_back({log_prob, below});
    if (below >= 0) continue;
    std::swap(found->back(), (*found)[leaves++]);
    if (leaves == most) cut();
  }
  if (leaves > max_classes) cut();
  return true;
}

// Adds the roots at which an example begins: those above an allowed class.
template <typename T>
std::string AddRoots(const GroupScorer<T>& scorer, const ClassMask* allowed,
                     int64_t example, ExampleSearch<Accumulator<T>>* search) {
  const TreeView& tree = scorer.tree;
  for (int64_t root = 0; root < tree.num_roots; ++root) {
    const int64_t group = tree.root_group(root);
    if (allowed != nullptr) {
      GroupSpan span;
      const std::string error = GroupAt(tree, group, &span);
      if (!error.empty()) return error;
      const int64_t last = span.first_row + span.fanout - 1;
      if (!AllowedBelow(allowed, example).Any(span.first_row, last)) continue;
    }
    search->Add({scorer.Start(example, root), group});
  }
  return "";
}

// Searches the examples [begin, end), as FindBestClasses; `peak` is the most
// nodes and classes that they held.
template <typename T>
std::string FindFor(
    const GroupScorer<T>& scorer, const SearchOptions& options, int64_t begin,
    int64_t end,
    const std::function<void(int64_t, const SearchResult<Accumulator<T>>&)>&
        report,
    const Accumulator<T>* bounds, int64_t* peak) {
  using A = Accumulator<T>;
  constexpr int64_t kSearches = 8;  // of one work item
  const TreeView& tree = scorer.tree;
  GroupSpan root;
  const std::string wrong_root = GroupAt(tree, 0, &root);
  if (!wrong_root.empty()) return wrong_root;
  const Widths widths = WidthsFor(root, end - begin);
  std::vector<ExampleSearch<A>> searches(end - begin,
                                         ExampleSearch<A>(options, widths));
  std::vector<int64_t> active, starts;           // starts: of each one's slots
  std::vector<std::vector<Candidate<A>>> found;  // by slot
  std::vector<Visit> visits;
  std::vector<A> above;  // by slot
  for (int64_t i = begin; i < end; ++i) {
    ExampleSearch<A>& search = searches[i - begin];
    if (bounds != nullptr) search.SetBound(bounds[i]);
    const std::string error = AddRoots(scorer, options.allowed, i, &search);
    if (!error.empty()) return error;
    active.push_back(i);
  }
  starts.assign(active.size() + 1, 0);
  std::atomic<int64_t> bad_group{-1};
  while (!active.empty()) {
    // What the last round found, and what each search opens next.
    const int64_t count = active.size();
    scorer.parallel((count + kSearches - 1) / kSearches, [&](int64_t item) {
      std::vector<RankedClass<A>> classes;
      for (int64_t at = item * kSearches;
           at < std::min((item + 1) * kSearches, count); ++at) {
        ExampleSearch<A>& search = searches[active[at] - begin];
        for (int64_t slot = starts[at]; slot < starts[at + 1]; ++slot) {
          for (const Candidate<A>& c : found[slot]) search.Add(c);
          if (found[slot].empty()) search.AddNothing();
        }
        if (search.Next().empty()) {
          report(active[at], search.Finish(&classes));
        }
      }
    });
    std::vector<int64_t> still_active;
    visits.clear();
    above.clear();
    starts.assign(1, 0);
    int64_t held = 0;
    for (int64_t example : active) {
      const ExampleSearch<A>& search = searches[example - begin];
      const std::vector<Candidate<A>>& next = search.next();
      held += search.num_held();
      if (next.empty()) {
        if (search.is_short()) {
          return "row_below: the tree has fewer leaves than the k = " +
                 std::to_string(options.max_classes) + " classes asked for";
        }
        continue;
      }
      if (search.num_opened() > tree.num_groups) {
        return "row_below: a group is below more than one row";
      }
      still_active.push_back(example);
      for (const Candidate<A>& c : next) {
        visits.push_back(
            {c.node, example, static_cast<int64_t>(visits.size())});
        above.push_back(c.log_prob);
      }
      starts.push_back(visits.size());
    }
    *peak = std::max(*peak, held);
    active.swap(still_active);
    if (found.size() < visits.size()) found.resize(visits.size());
    SortVisits(&visits);
    const std::string error =
        Score<T>(scorer, visits, [&](int64_t i, const A* log_probs) {
          const Visit& visit = visits[i];
          if (!Collect(tree, visit.group, above[visit.slot], log_probs,
                       searches[visit.example - begin], options.max_classes,
                       AllowedBelow(options.allowed, visit.example),
                       &found[visit.slot])) {
            bad_group = visit.group;
          }
        });
    if (!error.empty()) return error;
    if (bad_group >= 0) return NotBelow(tree, bad_group);
  }
  return "";
}

}  // namespace

template <typename T>
std::string FindBestClasses(
    const GroupScorer<T>& scorer, const SearchOptions& options,
    const std::function<void(int64_t, const SearchResult<Accumulator<T>>&)>&
        found,
    const Accumulator<T>* bounds) {
  if (options.allowed != nullptr) {
    const std::string error =
        CheckMask(*options.allowed, scorer.tree.num_classes);
    if (!error.empty()) return error;
  }
  // At first, so many at a time that they could hold all nodes; then, by what
  // those before have held.
  int64_t size =
      std::clamp(kMaxOpen / (scorer.tree.num_groups + options.max_classes),
                 kMinExamples, kMaxExamples);
  for (int64_t begin = 0; begin < scorer.num_examples;) {
    const int64_t end = std::min(begin + size, scorer.num_examples);
    int64_t peak = 1;
    const std::string error =
        FindFor(scorer, options, begin, end, found, bounds, &peak);
    if (!error.empty()) return error;
    const int64_t each = (peak + end - begin - 1) / (end - begin);
    size = std::clamp<int64_t>(kMaxOpen / each, 1, kMaxExamples);
    begin = end;
  }
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(FindBestClasses, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
