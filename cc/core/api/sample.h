// Classes drawn by their probabilities.
//
// A class is drawn from the root down, one child of each group on its path by
// one uniform number: a function of the seed, the draw's index and the depth,
// so neither threads nor other draws matter. All draws go down together, level
// by level, and those of an example that are at the same group share its
// softmax. Restricted to the best classes, they are found first (search.h), and
// drawn by p ** (1 / temperature), of which top_p cuts a share.
//
// Where the roots have log-probabilities, a draw takes its root by the uniform
// number of depth 0, and the root's group by that of depth 1. The roots'
// probabilities count relative to their sum, which is that of all classes.

#ifndef TF_HSM_CC_CORE_API_SAMPLE_H_
#define TF_HSM_CC_CORE_API_SAMPLE_H_

#include <cstdint>
#include <string>

#include "cc/core/api/group_scores.h"

namespace tf_hsm {

struct SampleOptions {
  int64_t num_samples = 1;  // of each example
  uint64_t seed_0 = 0;
  uint64_t seed_1 = 0;
  // Without a restriction every group's logits are divided by it, but not the
  // roots' log-probabilities. 0: the best class.
  double temperature = 1;
  int64_t top_k = 0;  // draw among the k best classes; 0: all
  double top_p = 1;   // draw among the best ones that reach this share; 1: all

  bool is_restricted() const { return top_k > 0 || top_p < 1; }
  // Whether top_p is a share of all classes, and not of the k best.
  bool cuts_all() const { return top_k == 0 && top_p < 1; }
};

// The candidates of a top_p without top_k at a temperature that is not 1. A
// share of all classes would need the probability of each.
constexpr int64_t kMaxTempered = 1024;

// Replaces temperature 0 by top_k = 1, and gives a top_p without top_k its
// kMaxTempered candidates where the temperature is not 1.
SampleOptions Resolved(SampleOptions options, int64_t num_classes);

// Expects options from `Resolved`. Fills classes [num_examples, num_samples];
// -1 where the probabilities are NaN, or all roots have a probability of zero.
// Several roots must have log-probabilities. Returns an empty string, or what
// is wrong with the tree.
template <typename T>
std::string Sample(const GroupScorer<T>& scorer, const SampleOptions& options,
                   int64_t* classes);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SAMPLE_H_
