// One step of an update rule on some rows of a variable, in place, on a GPU.
// See gpu.h for what holds throughout.

#ifndef TF_HSM_CC_CUDA_API_SPARSE_UPDATE_H_
#define TF_HSM_CC_CUDA_API_SPARSE_UPDATE_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"

namespace tf_hsm::gpu {

// The most bytes of a row's accumulators, which a block of any GPU has room for
// in its shared memory.
constexpr int64_t kMaxUpdatedRowBytes = 40 << 10;

// A gradient of some rows of a matrix [num_rows, width].
template <typename T>
struct SparseGradient {
  const void* rows = nullptr;  // [count], int32 or int64, in any order
  bool rows_are_int64 = true;
  int64_t count = 0;
  const Accumulator<T>* values = nullptr;  // [count, width]
  int64_t num_rows = 0;
  int64_t width = 0;
};

int64_t SparseUpdateBytes(int64_t count, int64_t num_rows);

// Updates the weights of `update`, which has no biases, by the sums of each
// row's values, which are made in their order. Values of a row that is
// not there are left out. Takes every rule. `scratch` has SparseUpdateBytes.
template <typename T>
std::string SparseUpdate(const SparseGradient<T>& gradient,
                         const DeviceUpdate<T>& update, void* scratch,
                         void* stream);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_API_SPARSE_UPDATE_H_
