// The logits of some of the rows: of all examples, or of those that open one of
// the groups in question. Those of rows without weights are 0.

#ifndef TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_
#define TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/predict/places.h"

namespace tf_hsm {
namespace gpu {

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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PREDICT_NODE_LOGITS_H_
