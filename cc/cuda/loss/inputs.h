// The inputs of a batch, as the kernels read them.

#ifndef TF_HSM_CC_CUDA_LOSS_INPUTS_H_
#define TF_HSM_CC_CUDA_LOSS_INPUTS_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/device/mma.h"

namespace tf_hsm::gpu {

template <typename T, typename X>
TF_HSM_KERNEL(kBlockThreads)
SortInputs(const int32_t* order, const X* inputs, int64_t size, int64_t width,
           Accumulator<T>* x, T* operands) {
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < size;
       i += NumBlocks() * warps) {
    const X* from = inputs + (order == nullptr ? i : order[i]) * width;
    for (int64_t d = Lane(); d < width; d += kWarp) {
      const auto value = static_cast<Accumulator<T>>(Widen(from[d]));
      if (x != nullptr) x[i * width + d] = value;
      if (operands != nullptr) {
        operands[i * width + d] = RoundOperand<T>(value);
      }
    }
  }
}

// x [size, width], the inputs as accumulators, and `operands`, the same rounded
// for tensor cores, in the order of `order` or, if that is null, in their own.
// What is null is left out.
template <typename T>
void PackInputs(const Launcher& launcher, const Batch<T>& batch,
                const int32_t* order, Accumulator<T>* x,
                T* operands = nullptr) {
  WithElements(batch.input_type, batch.inputs, [&](const auto* inputs) {
    using X = std::decay_t<decltype(*inputs)>;
    launcher.PerWarp(SortInputs<T, X>, batch.size, kBlockThreads / kWarp, 0,
                     order, inputs, batch.size, batch.width, x, operands);
  });
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_INPUTS_H_
