// What hot_forward.cu and hot_backward.cu share.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_

#include <cstdint>

#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/hot/hot_load.h"
#include "cc/cuda/loss/hot/wide_product.h"

namespace tf_hsm::gpu {

// The slabs of the sums, an eighth of which is whole fragments of WideMma.
template <typename Product>
Slabs HotSlabs(int64_t width) {
  const int64_t count = CeilDivide(width, Product::kSumColumns);
  return {static_cast<int>(RoundUp(CeilDivide(width, count), 64)),
          static_cast<int>(count)};
}

template <typename Product, typename T>
HotArguments<Product> HotArgumentsOf(const Batch<T>& batch,
                                     const Buffers<T>& buffers,
                                     const Slabs& slabs) {
  const auto* x = InputsOf<Product>(buffers);
  return {batch.weights,
          batch.biases,
          x,
          batch.width,
          slabs,
          CopyBytes(batch.weights, batch.width),
          CopyBytes(x, batch.width),
          buffers};
}

// use(arguments) of the logits or the sums.
template <typename T, typename Use>
void WithHotLogits(const Batch<T>& batch, const Buffers<T>& buffers,
                   const LaunchShape& shape, const Use& use) {
  if (!shape.tensor_cores) {
    return use(HotArgumentsOf<HotSimt<T>>(batch, buffers, {}));
  }
  use(HotArgumentsOf<HotMma<T>>(batch, buffers, {}));
}

template <typename T, typename Use>
void WithHotSums(const Batch<T>& batch, const Buffers<T>& buffers,
                 const LaunchShape& shape, const Use& use) {
  if (!shape.tensor_cores) {
    return use(HotArgumentsOf<HotSimt<T>>(batch, buffers,
                                          HotSlabs<HotSimt<T>>(batch.width)));
  }
  use(HotArgumentsOf<WideMma<T>>(batch, buffers,
                                 HotSlabs<WideMma<T>>(batch.width)));
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LAUNCH_H_
