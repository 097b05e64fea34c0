// Places on the device, and what a walk down begins with: see levels.h.

#ifndef TF_HSM_CC_CUDA_PREDICT_PLACES_H_
#define TF_HSM_CC_CUDA_PREDICT_PLACES_H_

#include <cstdint>

#include "cc/cuda/api/levels.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

TF_HSM_DEVICE int64_t GroupAt(const Places& in, int64_t place) {
  return in.groups == nullptr ? place : in.groups[place];
}
TF_HSM_DEVICE int64_t PlaceOf(const Places& in, int64_t group) {
  return in.places == nullptr ? group : in.places[group];
}
TF_HSM_DEVICE const int64_t* OffsetsOf(const Places& in, const TreeView& tree) {
  return in.offsets == nullptr ? tree.group_offsets : in.offsets;
}

// The log-probability that `example` begins with at the root at `place`, which
// is its number: of root_log_probs [size, roots], or 0.
template <typename A>
TF_HSM_DEVICE A StartOf(const TreeView& tree, const A* root_log_probs,
                        int64_t example, int64_t place) {
  return root_log_probs == nullptr
             ? A(0)
             : root_log_probs[example * tree.num_roots + place];
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_PLACES_H_
