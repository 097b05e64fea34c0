// What the tests of log_probs.h share: a run of it, and gradients for it.

#ifndef TF_HSM_CC_CORE_API_LOG_PROBS_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_LOG_PROBS_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/log_probs.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

template <typename A>
struct Outputs {
  std::vector<A> values, groups, dz, dx, roots;
};

// Without `grads`, the forward only.
template <typename T>
Outputs<Accumulator<T>> Run(const GroupScorer<T>& scorer, bool of_nodes,
                            const std::vector<Accumulator<T>>& grads) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  const int64_t examples = scorer.num_examples;
  std::vector<int64_t> levels;
  const std::string error = FindLevels(tree, &levels);
  Expect(error.empty(), error);
  Outputs<A> out;
  out.values.assign(examples * (of_nodes ? tree.num_rows : tree.num_classes),
                    NAN);
  out.groups.assign(examples * tree.num_groups, NAN);
  LogProbs<T>(scorer, levels, {of_nodes, out.values.data(), out.groups.data()});
  if (grads.empty()) return out;
  out.dz.assign(examples * tree.num_weight_rows(), NAN);
  out.dx.assign(examples * scorer.width, NAN);
  out.roots.assign(examples * tree.num_roots, NAN);
  LogProbsGrad<T>(scorer, levels,
                  {of_nodes, out.values.data(), out.groups.data()},
                  grads.data(), out.dz.data(), out.dx.data(), out.roots.data());
  return out;
}

// A gradient for every target, multiples of 1/64; all but about 16 of an
// example are zero, since each costs the reference a path.
template <typename T>
std::vector<Accumulator<T>> RandomGrads(const Head<T>& head, bool of_nodes,
                                        std::mt19937* rng) {
  const TreeView tree = head.tree();
  const int64_t targets = of_nodes ? tree.num_rows : tree.num_classes;
  std::vector<Accumulator<T>> grads =
      Draw<Accumulator<T>>(head.batch * targets, 64, rng);
  for (auto& grad : grads) {
    if (static_cast<int64_t>((*rng)() % targets) >= 16) grad = 0;
  }
  return grads;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LOG_PROBS_TEST_SUPPORT_H_
