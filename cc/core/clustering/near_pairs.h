// Which clusters of a family are split in a round: pairs of near ones.

#ifndef TF_HSM_CC_CORE_CLUSTERING_NEAR_PAIRS_H_
#define TF_HSM_CC_CORE_CLUSTERING_NEAR_PAIRS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/clustering/point_kernels.h"

namespace tf_hsm {

// The distances of clusters. The more often a pair has been split, the farther
// apart it counts, so that all get their turn; where neither cluster has
// changed since, it counts as infinitely far apart.
class NearPairs {
 public:
  using Pair = std::pair<int64_t, int64_t>;  // the first is the lesser one

  // `means [count, stride]` are the means of the clusters. `splits [count,
  // count]` is how often two clusters have been split, less than zero where
  // neither has changed since. Both must outlive this object, which changes
  // `splits`.
  NearPairs(const PointKernels& kernels, const float* means, int64_t count,
            int64_t stride, float* splits);

  // Finds the distances of the clusters `changed` to all others.
  void Update(const std::vector<int64_t>& changed, const Parallel& parallel);

  // Pairs mutually nearest clusters, then the nearest of the rest, and so on,
  // no cluster in two pairs, and none at an infinite distance.
  std::vector<Pair> Match() const;

  // Notes that pairs have been split. `changed` are the clusters whose points
  // are others now.
  void AddSplits(const std::vector<Pair>& pairs,
                 const std::vector<int64_t>& changed);

 private:
  const PointKernels& kernels_;
  const float* const means_;
  const int64_t count_, stride_, padded_;
  float* const splits_;
  std::vector<float> squares_;    // of the means
  std::vector<float> distances_;  // [count, padded], infinite to itself
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CLUSTERING_NEAR_PAIRS_H_
