// What hot_forward.cu and hot_backward.cu share.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_

#include <cstdint>

#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/hot/hot_load.h"

namespace tf_hsm {
namespace gpu {

inline Slabs HotSlabs(int64_t width) {
  return {kHotTile, static_cast<int>(CeilDivide(width, kHotTile))};
}

template <typename Product, typename T>
HotArguments<Product> HotArgumentsOf(const Batch<T>& batch,
                                     const Buffers<T>& buffers,
                                     const typename Product::Input* x) {
  return {batch.weights,
          batch.biases,
          x,
          batch.width,
          HotSlabs(batch.width),
          CopyBytes(batch.weights, batch.width),
          CopyBytes(x, batch.width),
          buffers};
}

// use(arguments) with those of the product that serves the batch.
template <typename T, typename Use>
void WithHotProduct(const Batch<T>& batch, const Buffers<T>& buffers,
                    const LaunchShape& shape, const Use& use) {
  if (!shape.tensor_cores) {
    return use(HotArgumentsOf<HotSimt<T>>(batch, buffers, buffers.x));
  }
  use(HotArgumentsOf<HotMma<T>>(batch, buffers, buffers.operands));
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_
