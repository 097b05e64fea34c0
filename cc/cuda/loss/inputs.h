// The inputs of a batch, as the kernels read them.

#ifndef TF_HSM_CC_CUDA_LOSS_INPUTS_H_
#define TF_HSM_CC_CUDA_LOSS_INPUTS_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/loss/dispatch.h"

namespace tf_hsm {
namespace gpu {

constexpr int kInputThreads = 256;

template <typename A, typename X>
TF_HSM_KERNEL(kInputThreads)
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
void PackInputs(const Batch<T>& batch, const int32_t* order, Accumulator<T>* x,
                const DeviceLimits& device, void* stream) {
  using A = Accumulator<T>;
  const int64_t grid =
      Grid(CeilDivide(batch.size * batch.width, kInputThreads), device);
  auto pack = [&](auto* inputs) {
    using X = std::remove_const_t<std::remove_pointer_t<decltype(inputs)>>;
    Launch(SortInputs<A, X>, grid, kInputThreads, 0, stream, order, inputs,
           batch.size, batch.width, x);
  };
  switch (batch.input_type) {
    case ElementType::kFloat:
      return pack(static_cast<const float*>(batch.inputs));
    case ElementType::kDouble:
      return pack(static_cast<const double*>(batch.inputs));
    case ElementType::kBfloat16:
      return pack(static_cast<const bfloat16*>(batch.inputs));
    case ElementType::kHalf:
      return pack(static_cast<const half*>(batch.inputs));
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_INPUTS_H_
