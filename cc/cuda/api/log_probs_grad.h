// The log-probabilities that have a gradient, and that gradient, on a GPU:
// cc/core/api/log_probs.h has the formulas, inference.h what holds throughout.

#ifndef TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_
#define TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/cuda/api/gpu.h"

namespace tf_hsm {
namespace gpu {

// Log-probabilities of all nodes, or of all classes, and of the groups.
template <typename A>
struct AllLogProbs {
  bool of_nodes = false;
  A* values = nullptr;  // [size, rows] with of_nodes, else [size, classes]
  A* groups = nullptr;  // [size, groups], of the parent row; 0 for the root's
};

// Without of_nodes it takes at most `chunk` examples at a time. `levels` as for
// LogProbs; `scratch` has AllLogProbsBytes.
template <typename T>
int64_t AllLogProbsBytes(const Batch<T>& batch, bool of_nodes, int64_t chunk);
template <typename T>
std::string MakeAllLogProbs(const Batch<T>& batch,
                            const std::vector<int64_t>& levels, int64_t chunk,
                            const AllLogProbs<Accumulator<T>>& out,
                            void* scratch, void* stream);

// Fills dz [size, rows] and dx [size, width] from the gradient that reaches the
// values, `grads`, of their shape. batch.tree has row_below; `scratch` has
// LogProbsGradBytes.
template <typename T>
int64_t LogProbsGradBytes(const Batch<T>& batch);
template <typename T>
std::string LogProbsGrad(const Batch<T>& batch,
                         const std::vector<int64_t>& levels,
                         const AllLogProbs<const Accumulator<T>>& forward,
                         const Accumulator<T>* grads, Accumulator<T>* dz,
                         Accumulator<T>* dx, void* scratch, void* stream);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_
