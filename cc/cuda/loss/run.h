// What the entry points (loss.cu) call for a batch, or for a chunk of one.

#ifndef TF_HSM_CC_CUDA_LOSS_RUN_H_
#define TF_HSM_CC_CUDA_LOSS_RUN_H_

#include <cstdint>
#include <string>

#include "cc/cuda/loss/loss_launcher.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm::gpu {

// After LossLauncher::Plan.
template <typename T>
std::string RunForward(const LossLauncher<T>& launcher,
                       const LossOutputs<T>& outputs);

// Lists at most `capacity` touched rows, unless `touched` is null.
template <typename T>
std::string RunBackward(const LossLauncher<T>& launcher,
                        const Accumulator<T>* loss_grads,
                        const RowOutput<T>& out, int64_t* touched,
                        int64_t capacity);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_RUN_H_
