// The forward of a batch of visits (api/label_tree.h), behind forward.cu.

#ifndef TF_HSM_CC_CUDA_LOSS_LABEL_TREE_H_
#define TF_HSM_CC_CUDA_LOSS_LABEL_TREE_H_

#include <cstdint>

#include "cc/cuda/loss/loss_launcher.h"

namespace tf_hsm::gpu {

// Losses and dx of the examples, after LossLauncher::Plan.
template <typename T>
void LaunchVisits(const LossLauncher<T>& launcher,
                  const LossOutputs<T>& outputs);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_LABEL_TREE_H_
