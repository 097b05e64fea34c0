// Exchanges points between sibling clusters, two clusters at a time.
//
// The points of two near clusters are split anew by two-means, which never
// makes the sum of squared distances to the clusters' means larger and leaves
// their sizes alone. A round does so for many pairs side by side, no cluster in
// two.

#ifndef TF_HSM_CC_CORE_CLUSTERING_EXCHANGE_H_
#define TF_HSM_CC_CORE_CLUSTERING_EXCHANGE_H_

#include <cstdint>

#include "cc/core/base/parallel.h"
#include "cc/core/clustering/two_means.h"

namespace tf_hsm {

// Sibling clusters. Cluster k has the points at the places from starts[k] on,
// sizes[k] of them; no two clusters share one.
struct Siblings {
  const int64_t* starts;
  const int64_t* sizes;
  int64_t count;
  // [count, count]: how often two clusters have been split. It is less than
  // zero where neither has changed since.
  float* splits;
};

// What rounds of exchange have done.
struct Exchanged {
  int64_t pairs = 0;   // that were split
  int64_t points = 0;  // that changed their cluster
};

// Splits `count` runs of places: runs[3 p] and the next two are where the left
// and the right part of run p begin, and its end. `order` is the point at each
// place.
void Halve(const Points& points, const int64_t* runs, int64_t count,
           const Parallel& parallel, int64_t* order);

// Splits near siblings anew, until no pair can be better, in at most `rounds`
// rounds. A round takes the nearest pairs first; the more often a pair has been
// split, the farther apart it counts, so that all get their turn.
Exchanged Exchange(const Points& points, const Siblings& siblings,
                   int64_t rounds, const Parallel& parallel, int64_t* order);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CLUSTERING_EXCHANGE_H_
