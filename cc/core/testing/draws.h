// What draws must be: each level's uniform number (cc/core/base/philox.h) lies
// in the share of the row that is drawn there.

#ifndef TF_HSM_CC_CORE_TESTING_DRAWS_H_
#define TF_HSM_CC_CORE_TESTING_DRAWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/core/testing/trees.h"

namespace tf_hsm {

// How far u in [0, 1) lies outside the share of `index`; not positive if it
// lies inside. The shares sum to 1. 1 for no share.
inline double MissOf(const std::vector<double>& shares, size_t index,
                     double u) {
  if (index >= shares.size()) return 1;
  const double before =
      std::accumulate(shares.begin(), shares.begin() + index, 0.0);
  return std::max(before - u, u - before - shares[index]);
}

// The shares of an example's roots by their log-probabilities, `starts`, and
// the logarithm of the sum of those: minus infinity if they all are.
template <typename A>
std::vector<double> SharesOfRoots(const std::vector<A>& starts,
                                  double* log_sum) {
  std::vector<double> shares;
  for (A start : starts) shares.push_back(std::exp(double{start}));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  *log_sum = std::log(sum);
  return shares;
}

// How far the uniform numbers of draw number `draw` lie outside the shares on
// the path of `label`, at most: from the root down, by log p of all nodes of
// the example given their roots. A forest's roots have shares. 1 for no class.
inline double MissOfDraw(const TreeView& tree, const double* log_probs,
                         const std::vector<double>& root_shares,
                         const Uniform& uniform, int64_t draw, int64_t label) {
  if (label < 0 || label >= tree.num_classes) return 1;
  std::vector<int64_t> path = PathOf(tree, label);
  double miss = 0, above = 0;
  uint64_t level = 0;
  if (!root_shares.empty()) {
    const int64_t root = RootsOfGroups(tree)[tree.row_groups[path.back()]];
    miss = MissOf(root_shares, root, uniform.At(draw, level++));
  }
  for (; !path.empty(); path.pop_back()) {
    const int64_t group = tree.row_groups[path.back()];
    const int64_t first = tree.group_offsets[group];
    std::vector<double> shares;
    for (int64_t row = first; row < tree.group_offsets[group + 1]; ++row) {
      shares.push_back(std::exp(log_probs[row] - above));
    }
    miss = std::max(
        miss, MissOf(shares, path.back() - first, uniform.At(draw, level++)));
    above = log_probs[path.back()];
  }
  return miss;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_DRAWS_H_
