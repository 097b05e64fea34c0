// The most probable classes, without those of all others.
//
// A node's log-probability bounds those of the classes below it. Best-first
// search opens the most probable nodes until no unopened one could hold a class
// that belongs to the result, which is then exact. All examples of a batch are
// searched in rounds, so that a group's weights are read once for those that
// open it in the same round. As long as an example has too few classes, it
// opens a node per round, one more for every four classes found, and one more
// for every node of which no row passed a bound; then a few, and four times as
// many in each round after, of those that could still matter. Opening one at a
// time would open the fewest, in the most rounds; what this opens in vain and
// what it saves is in docs/performance.md.
//
// A beam goes down the tree level by level with at most `beam_width` nodes, and
// counts the nodes left out that could have held a better class.
//
// A forest's roots are nodes like others, open at first.
//
// A mask (class_mask.h) allows some classes only. A node with none of these
// below it is never opened; where they are fewer than wanted, so are the found.
//
// Order: the larger log-probability first, then the smaller class; NaN counts
// as minus infinity. Classes of minus infinity come only where there are too
// few others. With bounds, as for a part of a tree whose other parts have
// better classes, there may be fewer classes, and no node of minus infinity is
// opened.

#ifndef TF_HSM_CC_CORE_API_SEARCH_H_
#define TF_HSM_CC_CORE_API_SEARCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cc/core/api/class_mask.h"
#include "cc/core/api/group_scores.h"

namespace tf_hsm {

struct SearchOptions {
  int64_t max_classes = 1;  // k, in [1, num_classes]
  double max_mass = 2;      // stop at classes of this total probability
  int64_t beam_width = 0;   // 0: exact
  const ClassMask* allowed = nullptr;  // null: all classes
};

// A class and its log-probability, given the root.
template <typename A>
struct RankedClass {
  A log_prob;
  int64_t id;
};

// What a search found for an example: `num_classes` best ones, best first, and
// the number of nodes left out by a beam that could hold better ones.
template <typename A>
struct SearchResult {
  const RankedClass<A>* classes;
  int64_t num_classes;
  int64_t num_pruned;
};

// Calls found(example, result) once for each example, on any thread. There are
// max_classes of them, or as many as together reach max_mass, the last one
// included, if those are fewer. `bounds` [num_examples], or null, are the least
// log-probabilities that are wanted; NaN: any. Returns an empty string, or what
// is wrong with the tree or the mask.
template <typename T>
std::string FindBestClasses(
    const GroupScorer<T>& scorer, const SearchOptions& options,
    const std::function<void(int64_t, const SearchResult<Accumulator<T>>&)>&
        found,
    const Accumulator<T>* bounds = nullptr);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SEARCH_H_
