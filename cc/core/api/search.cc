#include "cc/core/api/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Examples that are searched side by side: the fewest, the most, and unopened
// nodes and classes that all of them together may hold.
constexpr int64_t kMinExamples = kMaxItemExamples;
constexpr int64_t kMaxExamples = 1024;
constexpr int64_t kMaxOpen = int64_t{1} << 24;

// How many nodes an example opens in a round: before it has enough classes, in
// the round after, and how many times more in each later one.
struct Widths {
  int64_t before;
  int64_t after;
};
constexpr int64_t kGrowth = 4;

// Many examples share what they read, and the larger the groups are the more
// counts that they do it in few rounds.
Widths WidthsFor(const TreeView& tree, int64_t num_examples) {
  constexpr int64_t kManyExamples = 32;
  constexpr int64_t kWideFanout = 64;
  if (num_examples < kManyExamples) return {1, 4};
  const bool is_wide =
      tree.group_offsets[1] - tree.group_offsets[0] >= kWideFanout;
  return is_wide ? Widths{8, 32} : Widths{1, 16};
}

// A mass that the best class has in any tree, and above the rounding of sums.
constexpr double kLeastMass = 1e-10;

// A node: a group, or -1 - class.
template <typename A>
struct Candidate {
  A log_prob;
  int64_t node;
};

template <typename A>
A Key(A log_prob) {
  return log_prob == log_prob ? log_prob : -std::numeric_limits<A>::infinity();
}

// Of two classes or two groups; -1 - class falls as the class grows.
template <typename A>
bool IsBetter(const Candidate<A>& a, const Candidate<A>& b) {
  const A key_a = Key(a.log_prob), key_b = Key(b.log_prob);
  return key_a != key_b ? key_a > key_b : a.node > b.node;
}

// Of the nodes in a heap the best is on top.
template <typename A>
bool IsWorse(const Candidate<A>& a, const Candidate<A>& b) {
  return IsBetter(b, a);
}

// One example's search.
template <typename A>
class Search {
 public:
  Search(const SearchOptions& options, const Widths& widths)
      : options_(options),
        max_mass_(std::max(options.max_mass, kLeastMass)),
        open_{{0, 0}},
        widths_(widths) {}

  // What is less probable is of no use any more.
  A least() const {
    return is_full_ ? Key(best_.front().log_prob)
                    : -std::numeric_limits<A>::infinity();
  }

  // Whether classes below a node with this log-probability could be in the
  // result, by what is known so far.
  bool CouldMatter(A bound) const {
    const A key = Key(bound);
    if (key == -std::numeric_limits<A>::infinity()) {
      return !is_full_ && options_.max_mass > 1;
    }
    return key >= least();
  }

  void Add(const Candidate<A>& candidate) {
    if (candidate.node >= 0) {
      if (!CouldMatter(candidate.log_prob)) return;
      open_.push_back(candidate);
      if (options_.beam_width == 0) {
        std::push_heap(open_.begin(), open_.end(), IsWorse<A>);
      }
      return;
    }
    if (is_full_ && !IsBetter(candidate, best_.front())) return;
    best_.push_back(candidate);
    std::push_heap(best_.begin(), best_.end(), IsBetter<A>);
    mass_ += Mass(candidate);
    while (static_cast<int64_t>(best_.size()) > options_.max_classes ||
           (best_.size() > 1 && mass_ - Mass(best_.front()) >= max_mass_)) {
      mass_ -= Mass(best_.front());
      std::pop_heap(best_.begin(), best_.end(), IsBetter<A>);
      best_.pop_back();
    }
    is_full_ = static_cast<int64_t>(best_.size()) == options_.max_classes ||
               mass_ >= max_mass_;
  }

  // The nodes to open next; none when the search is over.
  const std::vector<Candidate<A>>& Next() {
    next_.clear();
    if (options_.beam_width == 0) {
      NextBest();
    } else {
      NextLevel();
    }
    num_opened_ += next_.size();
    return next_;
  }

  const std::vector<Candidate<A>>& next() const { return next_; }
  int64_t num_opened() const { return num_opened_; }
  int64_t num_held() const {
    return open_.size() + left_out_.size() + best_.size();
  }

  // The result, once the search is over, in memory of `classes`.
  SearchResult<A> Finish(std::vector<RankedClass<A>>* classes) {
    const int64_t pruned =
        std::count_if(left_out_.begin(), left_out_.end(),
                      [&](const auto& c) { return CouldMatter(c.log_prob); });
    std::sort_heap(best_.begin(), best_.end(), IsBetter<A>);
    classes->clear();
    for (const Candidate<A>& c : best_) {
      classes->push_back({c.log_prob, ~c.node});
    }
    return {classes->data(), static_cast<int64_t>(classes->size()), pruned};
  }

  bool is_full() const { return is_full_; }

 private:
  double Mass(const Candidate<A>& leaf) const {
    // Not needed, so not made, for a number of classes.
    return options_.max_mass > 1
               ? 0
               : std::exp(static_cast<double>(Key(leaf.log_prob)));
  }

  void NextBest() {
    int64_t wanted = widths_.before + static_cast<int64_t>(best_.size()) / 4;
    if (is_full_) {
      wanted = widths_.after;
      widths_.after = std::min(kGrowth * widths_.after, kMaxOpen);
    }
    for (; wanted > 0 && !open_.empty(); --wanted) {
      if (!CouldMatter(open_.front().log_prob)) {
        open_.clear();
        return;
      }
      next_.push_back(open_.front());
      std::pop_heap(open_.begin(), open_.end(), IsWorse<A>);
      open_.pop_back();
    }
  }

  void NextLevel() {
    // With too few classes at the end, the beam goes on with what it left out.
    if (open_.empty() && !is_full_) open_.swap(left_out_);
    const auto end =
        std::remove_if(open_.begin(), open_.end(),
                       [&](const auto& c) { return !CouldMatter(c.log_prob); });
    const auto cut = open_.begin() + std::min<int64_t>(options_.beam_width,
                                                       end - open_.begin());
    std::nth_element(open_.begin(), cut, end, IsBetter<A>);
    next_.assign(open_.begin(), cut);
    left_out_.insert(left_out_.end(), cut, end);
    open_.clear();
  }

  const SearchOptions& options_;
  const double max_mass_;
  std::vector<Candidate<A>> best_;  // classes, a heap, the worst on top
  std::vector<Candidate<A>> open_;  // nodes, a heap unless for a beam
  std::vector<Candidate<A>> left_out_;
  std::vector<Candidate<A>> next_;
  double mass_ = 0;
  bool is_full_ = false;
  int64_t num_opened_ = 0;
  Widths widths_;
};

// The rows of a group that are of use to `search`; the best of its leaves only.
template <typename A>
bool Collect(const TreeView& tree, int64_t group, A above, const A* log_probs,
             const Search<A>& search, int64_t max_classes,
             std::vector<Candidate<A>>* found) {
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
    if (log_prob < least) continue;
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

// Searches the examples [begin, end); `peak` is the most nodes and classes
// that they held.
template <typename T>
std::string FindFor(
    const GroupScorer<T>& scorer, const SearchOptions& options, int64_t begin,
    int64_t end,
    const std::function<void(int64_t, const SearchResult<Accumulator<T>>&)>&
        report,
    int64_t* peak) {
  using A = Accumulator<T>;
  constexpr int64_t kSearches = 8;  // of one work item
  const TreeView& tree = scorer.tree;
  const Widths widths = WidthsFor(tree, end - begin);
  std::vector<Search<A>> searches(end - begin, Search<A>(options, widths));
  std::vector<int64_t> active, starts;           // starts: of each one's slots
  std::vector<std::vector<Candidate<A>>> found;  // by slot
  std::vector<Visit> visits;
  std::vector<A> above;  // by slot
  for (int64_t i = begin; i < end; ++i) active.push_back(i);
  starts.assign(active.size() + 1, 0);
  std::atomic<int64_t> bad_group{-1};
  while (!active.empty()) {
    // What the last round found, and what each search opens next.
    const int64_t count = active.size();
    scorer.parallel((count + kSearches - 1) / kSearches, [&](int64_t item) {
      std::vector<RankedClass<A>> classes;
      for (int64_t at = item * kSearches;
           at < std::min((item + 1) * kSearches, count); ++at) {
        Search<A>& search = searches[active[at] - begin];
        for (int64_t slot = starts[at]; slot < starts[at + 1]; ++slot) {
          for (const Candidate<A>& c : found[slot]) search.Add(c);
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
      const Search<A>& search = searches[example - begin];
      const std::vector<Candidate<A>>& next = search.next();
      held += search.num_held();
      if (next.empty()) {
        if (!search.is_full() && options.max_mass > 1) {
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
        found) {
  // As many at a time as can hold all nodes; then, as those before suggest.
  int64_t size =
      std::clamp(kMaxOpen / (scorer.tree.num_groups + options.max_classes),
                 kMinExamples, kMaxExamples);
  for (int64_t begin = 0; begin < scorer.num_examples;) {
    const int64_t end = std::min(begin + size, scorer.num_examples);
    int64_t peak = 1;
    const std::string error =
        FindFor(scorer, options, begin, end, found, &peak);
    if (!error.empty()) return error;
    const int64_t each = (peak + end - begin - 1) / (end - begin);
    size = std::clamp<int64_t>(kMaxOpen / each, 1, kMaxExamples);
    begin = end;
  }
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...)                 \
  template std::string FindBestClasses(            \
      const GroupScorer<T>&, const SearchOptions&, \
      const std::function<void(int64_t,            \
                               const SearchResult<Accumulator<T>>&)>&);
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)
#undef TF_HSM_INSTANTIATE

}  // namespace tf_hsm
