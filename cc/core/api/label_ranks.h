// How many classes are better than each example's label, counted up to k.
//
// The order is the order of search.h: a label of rank r is element r of the
// best classes. Counting costs less than finding these. Any k better classes
// show that the label is not among the k best, and no group less probable than
// the label is opened.
//
// The log-probability of the label needs the groups on its path. The last of
// them, the label's own group, is counted at once: where most classes are as
// good as others, as in a model at the beginning of its training, it has k
// better ones. Examples that have fewer go on from the root, in rounds: a few
// groups of each, the most probable ones, and several times as many in each
// later round, so that in the end the examples that must open many groups open
// them together, and read the weights once.

#ifndef TF_HSM_CC_CORE_API_LABEL_RANKS_H_
#define TF_HSM_CC_CORE_API_LABEL_RANKS_H_

#include <cstdint>
#include <string>

#include "cc/core/api/group_scores.h"

namespace tf_hsm {

// labels [num_examples], classes, or -1 for none -> ranks of the same shape:
// how many classes come before the label, at most k. The rank is k where there
// is no label, and where its log-probability is NaN or minus infinity. The
// arrays are read that ClassLogProbs and FindBestClasses read. Returns an empty
// string, or what is wrong with the labels or the tree.
template <typename T>
std::string LabelRanks(const GroupScorer<T>& scorer, const int64_t* labels,
                       int64_t k, int64_t* ranks);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LABEL_RANKS_H_
