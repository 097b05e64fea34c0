// The logits of some of the rows: of all examples, or of those that open one of
// the groups in question. Those of rows without weights are 0. Where rows have
// sigmoids, the logarithms of these.

#ifndef TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_
#define TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/predict/places.h"

namespace tf_hsm::gpu {

// Whether an example opens a group whose node has the log-probability `bound`:
// infinite where the node is not reached, or was opened before. NaN counts as
// minus infinity.
template <typename A>
TF_HSM_DEVICE bool IsOpened(A bound, A least) {
  const A value = bound != bound ? -static_cast<A>(INFINITY) : bound;
  return value >= least && value < static_cast<A>(INFINITY);
}

// The rows, and the groups that have them, by place.
struct RowRange {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_group = 0;
  int64_t num_groups = 0;
};

template <typename T>
struct NodeLogitsArguments {
  TreeView tree;
  const T* weights;
  const T* biases;
  int64_t width;
  const Accumulator<T>* x;  // of PackOperands
  int64_t size;
  RowRange rows;
  Places places;
  const Accumulator<T>* bounds;  // [groups by place, size]
  const Accumulator<T>* least;   // [size]; null: all examples open all groups
  Accumulator<T>* out;           // [size, stride], from the first row on
  int64_t stride;
};

// x: memory for [size, width] accumulators. Fills it with the inputs as the
// product that serves the batch takes them, which are no larger.
template <typename T>
void PackOperands(const Launcher& launcher, const Batch<T>& batch,
                  Accumulator<T>* x);

// The product is the one that serves the batch.
template <typename T>
void MakeNodeLogits(const Launcher& launcher, const Batch<T>& batch,
                    const NodeLogitsArguments<T>& arguments);

// A tree in pieces of so many rows, on the host.

inline RowRange SpanOf(const int64_t* group_offsets, int64_t first_group,
                       int64_t last_group) {
  RowRange span;
  span.first_group = first_group;
  span.num_groups = last_group - first_group;
  span.first_row = group_offsets[first_group];
  span.num_rows = group_offsets[last_group] - span.first_row;
  return span;
}

// The levels from the root on that have at most `rows` rows together.
inline size_t TopLevels(const std::vector<int64_t>& levels,
                        const int64_t* group_offsets, int64_t rows) {
  size_t count = 0;
  while (count + 1 < levels.size() &&
         group_offsets[levels[count + 1]] <= rows) {
    ++count;
  }
  return count;
}

// The groups of a level in pieces of at most `rows` rows, or of one group.
inline std::vector<RowRange> CutLevel(const std::vector<int64_t>& levels,
                                      size_t level,
                                      const int64_t* group_offsets,
                                      int64_t rows) {
  std::vector<RowRange> pieces;
  const int64_t last = levels[level + 1];
  for (int64_t first = levels[level]; first < last;) {
    const int64_t* after =
        std::upper_bound(group_offsets + first + 1, group_offsets + last + 1,
                         group_offsets[first] + rows);
    const int64_t end = std::max<int64_t>(after - group_offsets - 1, first + 1);
    pieces.push_back(SpanOf(group_offsets, first, end));
    first = end;
  }
  return pieces;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_
