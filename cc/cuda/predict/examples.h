// Some of the examples of a batch.

#ifndef TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_
#define TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_

#include <cstdint>

#include "cc/cuda/api/gpu.h"

namespace tf_hsm {
namespace gpu {

// Bytes of an input.
template <typename T>
int64_t InputBytes(const Batch<T>& batch) {
  const int64_t element = batch.input_type == ElementType::kDouble  ? 8
                          : batch.input_type == ElementType::kFloat ? 4
                                                                    : 2;
  return batch.width * element;
}

// Those from `begin` on; the labels stay.
template <typename T>
Batch<T> ExamplesOf(const Batch<T>& batch, int64_t begin, int64_t size) {
  Batch<T> part = batch;
  part.size = size;
  part.inputs =
      static_cast<const char*>(batch.inputs) + begin * InputBytes(batch);
  return part;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_
