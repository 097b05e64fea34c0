// log p(class | x) of a few given classes of each example, for ranking them.
//
// All (class, example) paths are cut into (group, example) visits, and each
// visit is scored once, however many of the example's classes pass it.

#ifndef TF_HSM_CC_CORE_API_CLASS_LOG_PROBS_H_
#define TF_HSM_CC_CORE_API_CLASS_LOG_PROBS_H_

#include <cstdint>
#include <string>

#include "cc/core/api/group_scores.h"

namespace tf_hsm {

// classes [num_examples, count] -> log_probs of the same shape, in nats. The
// tree's class_rows, row_groups and group_parents are read. Where the roots
// have log-probabilities, the class -1 is one below none of them: its
// log-probability is minus infinity. Returns an empty string, or what is wrong
// with the classes or the tree.
template <typename T>
std::string ClassLogProbs(const GroupScorer<T>& scorer, const int64_t* classes,
                          int64_t count, Accumulator<T>* log_probs);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_CLASS_LOG_PROBS_H_
