// The state of a loss, made again from what somebody else has kept of it.

#ifndef TF_HSM_CC_CUDA_API_SAVED_STATE_H_
#define TF_HSM_CC_CUDA_API_SAVED_STATE_H_

#include <string>

#include "cc/cuda/api/gpu.h"

namespace tf_hsm {
namespace gpu {

// Makes memory.state what Forward left there for `batch`, with `saved` for the
// results that need the weights: normalizers, probabilities and logits. The
// plan, and the inputs in its order, are made again, so that no number of
// `saved`, which may hold anything, becomes an index. `saved` has the bytes of
// a state; of `losses` [size] nothing is kept.
template <typename T>
std::string RestoreState(const Batch<T>& batch, const Memory& memory,
                         const void* saved, Accumulator<T>* losses,
                         void* stream);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_SAVED_STATE_H_
