// What the kernels at large groups get, and the shared memory of the forward.

#ifndef TF_HSM_CC_CUDA_LOSS_LARGE_ARGUMENTS_H_
#define TF_HSM_CC_CUDA_LOSS_LARGE_ARGUMENTS_H_

#include <cstdint>

#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm {
namespace gpu {

constexpr int kMaxStages = 4;  // row tiles on their way or in use

template <typename T>
struct LargeArguments {
  const T* weights;
  const T* biases;
  int64_t width;
  Slabs slabs;
  int weight_bytes;  // of a copy, see CopyBytes
  int input_bytes;
  int64_t shared_bytes;  // of a block of the forward
  Buffers<T> buffers;
};

// The beginning of the shared memory of a block of the forward. The inputs are
// behind it, then tiles of weights.
template <typename A>
struct alignas(16) ForwardTerms {
  A z[kTile * kCoefficientStride];  // [rows, examples]
  A max[kTile];                     // of an example
  A sum[kTile];
  A factor[kTile];
};

// Shared memory of a block of the forward with so many row tiles, besides all
// 32 examples.
template <typename Product>
TF_HSM_HOST_DEVICE int64_t ForwardSharedBytes(int columns, int stages) {
  return stages * TileBytes<typename Product::Weight>(columns) +
         TileBytes<typename Product::Input>(columns) +
         sizeof(ForwardTerms<typename Product::A>);
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_LARGE_ARGUMENTS_H_
