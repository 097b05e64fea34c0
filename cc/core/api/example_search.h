// The search for one example's best classes (search.h): which nodes it opens
// next, by the log-probabilities found so far.

#ifndef TF_HSM_CC_CORE_API_EXAMPLE_SEARCH_H_
#define TF_HSM_CC_CORE_API_EXAMPLE_SEARCH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cc/core/api/search.h"

namespace tf_hsm {

// Examples that are searched side by side: the fewest, and the most.
constexpr int64_t kMinExamples = kMaxItemExamples;
constexpr int64_t kMaxExamples = 1024;

// Unopened nodes and classes that all searches together may hold.
constexpr int64_t kMaxOpen = int64_t{1} << 24;

// How many nodes an example opens in a round: before it has enough classes, in
// the round after, and how many times more in each later one.
struct Widths {
  int64_t before;
  int64_t after;
};
constexpr int64_t kGrowth = 4;

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

// Compares two classes or two groups; -1 - class falls as the class grows.
template <typename A>
bool IsBetter(const Candidate<A>& a, const Candidate<A>& b) {
  const A key_a = Key(a.log_prob), key_b = Key(b.log_prob);
  return key_a != key_b ? key_a > key_b : a.node > b.node;
}

// The order of a heap whose best node is on top.
template <typename A>
bool IsWorse(const Candidate<A>& a, const Candidate<A>& b) {
  return IsBetter(b, a);
}

// One example's search. It begins with the nodes that Add is given.
template <typename A>
class ExampleSearch {
 public:
  ExampleSearch(const SearchOptions& options, const Widths& widths)
      : options_(options),
        max_mass_(std::max(options.max_mass, kLeastMass)),
        widths_(widths) {}

  // Sets the least log-probability that is wanted, before all else.
  void SetBound(A bound) {
    has_bound_ = true;
    bound_ = Key(bound);
  }

  // Anything less probable is of no use any more.
  A least() const {
    return is_full_ ? std::max(bound_, Key(best_.front().log_prob)) : bound_;
  }

  // Whether classes below a node with this log-probability could be in the
  // result, by what is known so far.
  bool CouldMatter(A bound) const {
    const A key = Key(bound);
    if (key == -std::numeric_limits<A>::infinity()) {
      return !is_full_ && !has_bound_ && options_.max_mass > 1;
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
    if (Key(candidate.log_prob) < bound_) return;
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

  // Said of a node that it opened, of whose rows none passes the bound. Others
  // may be like it, and must be opened all the same: a round has one more.
  void AddNothing() { ++num_barren_; }

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

  // Whether it has found fewer classes than there must be.
  bool is_short() const {
    return !is_full_ && !has_bound_ && options_.max_mass > 1 &&
           options_.allowed == nullptr;
  }

 private:
  double Mass(const Candidate<A>& leaf) const {
    // Not needed, so not made, for a number of classes.
    return options_.max_mass > 1
               ? 0
               : std::exp(static_cast<double>(Key(leaf.log_prob)));
  }

  void NextBest() {
    int64_t wanted =
        widths_.before + static_cast<int64_t>(best_.size()) / 4 + num_barren_;
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
  A bound_ = -std::numeric_limits<A>::infinity();
  bool has_bound_ = false;
  bool is_full_ = false;
  int64_t num_opened_ = 0;
  int64_t num_barren_ = 0;
  Widths widths_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_EXAMPLE_SEARCH_H_
