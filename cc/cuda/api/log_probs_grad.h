// The log-probabilities that have a gradient, and that gradient, on a GPU:
// cc/core/api/log_probs.h has the formulas, inference.h what holds throughout.

#ifndef TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_
#define TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"

namespace tf_hsm {
namespace gpu {

// Log-probabilities of all nodes, or of all classes, and of the groups.
template <typename A>
struct AllLogProbs {
  bool of_nodes = false;
  A* values = nullptr;  // [size, rows] with of_nodes, else [size, classes]
  A* groups = nullptr;  // [size, groups], of the parent row or of the root
};

// Without of_nodes it takes at most `chunk` examples at a time. `scratch` has
// AllLogProbsBytes.
template <typename T>
int64_t AllLogProbsBytes(const Batch<T>& batch, bool of_nodes, int64_t chunk);
template <typename T>
std::string MakeAllLogProbs(const Batch<T>& batch, const Levels& levels,
                            int64_t chunk,
                            const AllLogProbs<Accumulator<T>>& out,
                            void* scratch, void* stream);

// The gradients by logits, inputs and root_log_probs.
template <typename A>
struct LogProbsGrads {
  A* dz = nullptr;     // [size, weight rows]
  A* dx = nullptr;     // [size, width]
  A* roots = nullptr;  // [size, roots], or null
};

// Makes them of the gradient that reaches the values, `grads`, of their shape.
// batch.tree has row_below; `scratch` has LogProbsGradBytes.
template <typename T>
int64_t LogProbsGradBytes(const Batch<T>& batch);
template <typename T>
std::string LogProbsGrad(const Batch<T>& batch, const Levels& levels,
                         const AllLogProbs<const Accumulator<T>>& forward,
                         const Accumulator<T>* grads,
                         const LogProbsGrads<Accumulator<T>>& out,
                         void* scratch, void* stream);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_LOG_PROBS_GRAD_H_
