// The inputs of a batch, as the kernels read them, and a batch in parts.

#ifndef TF_HSM_CC_CUDA_LOSS_INPUTS_H_
#define TF_HSM_CC_CUDA_LOSS_INPUTS_H_

#include <cstdint>
#include <string>
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

// Bytes of an input.
template <typename T>
int64_t InputBytes(const Batch<T>& batch) {
  int64_t bytes = 0;
  WithElements(batch.input_type, nullptr, [&](const auto* element) {
    bytes = batch.width * static_cast<int64_t>(sizeof(*element));
  });
  return bytes;
}

// The `size` examples from `begin` on; the labels stay.
template <typename T>
Batch<T> ExamplesOf(const Batch<T>& batch, int64_t begin, int64_t size) {
  Batch<T> part = batch;
  part.size = size;
  part.inputs =
      static_cast<const char*>(batch.inputs) + begin * InputBytes(batch);
  if (batch.root_log_probs != nullptr) {
    part.root_log_probs = batch.root_log_probs + begin * batch.tree.num_roots;
  }
  return part;
}

// use(begin, part) for parts of at most `chunk` examples, until it returns an
// error.
template <typename T, typename Use>
std::string ForEachChunk(const Batch<T>& batch, int64_t chunk, const Use& use) {
  for (int64_t begin = 0; begin < batch.size; begin += chunk) {
    const int64_t size = Smaller(chunk, batch.size - begin);
    const std::string error = use(begin, ExamplesOf(batch, begin, size));
    if (!error.empty()) return error;
  }
  return LaunchError();
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_INPUTS_H_
