// The log-probabilities of a few given classes of each example, on a GPU.

#ifndef TF_HSM_CC_CUDA_API_CLASS_LOG_PROBS_H_
#define TF_HSM_CC_CUDA_API_CLASS_LOG_PROBS_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"

namespace tf_hsm {
namespace gpu {

// batch.labels are the classes, [size, count], and log_probs has their shape;
// NaN for a class that the tree does not have. With root_log_probs, minus
// infinity for the class -1, which is one of another tree. Each class is an
// example of the loss of its own: what the paths of an example's classes share
// is computed for each. At most `chunk` examples at a time; `scratch` has
// ClassLogProbsBytes.
template <typename T>
int64_t ClassLogProbsBytes(const Batch<T>& batch, int64_t count, int64_t chunk);
template <typename T>
std::string ClassLogProbs(const Batch<T>& batch, const Levels& levels,
                          int64_t count, int64_t chunk,
                          Accumulator<T>* log_probs, void* scratch,
                          void* stream);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_CLASS_LOG_PROBS_H_
