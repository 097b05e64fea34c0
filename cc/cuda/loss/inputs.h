// The inputs of a batch, as the kernels read them.

#ifndef TF_HSM_CC_CUDA_LOSS_INPUTS_H_
#define TF_HSM_CC_CUDA_LOSS_INPUTS_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/launcher.h"

namespace tf_hsm {
namespace gpu {

template <typename A, typename X>
TF_HSM_KERNEL(kBlockThreads)
SortInputs(const int32_t* order, const X* inputs, int64_t size, int64_t width,
           A* x) {
  const int64_t count = size * width;
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < count;
       i += NumBlocks() * NumThreads()) {
    const int64_t position = i / width;
    const int64_t example = order == nullptr ? position : order[position];
    x[i] = static_cast<A>(Widen(inputs[example * width + i % width]));
  }
}

// x [size, width], the inputs as accumulators, in the order of `order` or, if
// that is null, in their own.
template <typename T>
void PackInputs(const Launcher& launcher, const Batch<T>& batch,
                const int32_t* order, Accumulator<T>* x) {
  WithElements(batch.input_type, batch.inputs, [&](const auto* inputs) {
    using X = std::decay_t<decltype(*inputs)>;
    launcher.PerThread(SortInputs<Accumulator<T>, X>, batch.size * batch.width,
                       order, inputs, batch.size, batch.width, x);
  });
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_INPUTS_H_
