// The kernels of hot groups, see plan.h: a large group that many examples pass
// is a product of matrices. Behind forward.cu and backward.cu.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_H_

#include <cstdint>

#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm::gpu {

// No block has more bytes of shared memory. With tensor cores two are on a
// multiprocessor of sm_80 and of sm_90.
TF_HSM_HOST_DEVICE constexpr int64_t HotSharedBytes(bool tensor_cores) {
  return (tensor_cores ? 76 : 64) << 10;
}

// T: float, bfloat16 or half. Items of hot nodes only;
// `buffers.bounds.hot_items` is above 0.
template <typename T>
void LaunchHotForward(const Batch<T>& batch, const Buffers<T>& buffers,
                      const LaunchShape& shape, bool with_dx, void* stream);

template <typename T>
void LaunchHotBackward(const Batch<T>& batch, const Buffers<T>& buffers,
                       const LaunchShape& shape, const RowOutput<T>& out,
                       void* stream);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_H_
