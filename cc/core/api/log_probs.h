// The log-probabilities of all classes, or of all nodes, and their gradient.
//
// From the roots down, level by level,
//     log p(row) = log p(its group's parent) + z_row - lse(z over the group),
// and the rows of a level, which are contiguous, are scored in blocks of whole
// groups. Backward, with g_r the gradient that reaches log p(r), and S the sums
//     S_r = g_r + S_group below r,   S_group = sum of S_r over its rows,
//     dz_r = S_r - S_group p(r | group),
// from the leaves up; then dx = dz W, and dW = dz^T x, which needs no weights.
// The gradient by a root's log-probability is S of its group.
// For a pinned tree, dz has only the rows with weights.
// Cost: 2 B R width FLOP for R rows of weights forward, as much for dx, and as
// much for dW: there is no cheaper way to all classes than all rows.

#ifndef TF_HSM_CC_CORE_API_LOG_PROBS_H_
#define TF_HSM_CC_CORE_API_LOG_PROBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/group_scores.h"

namespace tf_hsm {

// The first group of each level, and num_groups. A level is a run of groups
// none of which is below another of them, as many as stand side by side: a
// forest of trees of one group has one level. Fills it after a check of the
// whole tree, in O(rows); returns an empty string or what is wrong.
std::string FindLevels(const TreeView& tree, std::vector<int64_t>* levels);

// Log-probabilities of all nodes, or of all classes, and of the groups.
template <typename A>
struct AllLogProbs {
  bool of_nodes = false;
  A* values = nullptr;  // [examples, rows] with of_nodes, else [.., classes]
  // [examples, num_groups], of the parent row of each; of a root's group, the
  // root's.
  A* groups = nullptr;
};

template <typename T>
void LogProbs(const GroupScorer<T>& scorer, const std::vector<int64_t>& levels,
              const AllLogProbs<Accumulator<T>>& out);

// Fills dz [examples, weight rows], dx [examples, width] and, unless it is
// null, root_grads [examples, num_roots] from the gradient that reaches the
// values, `grads`, of their shape. What `forward` points at is only read.
template <typename T>
void LogProbsGrad(const GroupScorer<T>& scorer,
                  const std::vector<int64_t>& levels,
                  const AllLogProbs<const Accumulator<T>>& forward,
                  const Accumulator<T>* grads, Accumulator<T>* dz,
                  Accumulator<T>* dx, Accumulator<T>* root_grads = nullptr);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LOG_PROBS_H_
