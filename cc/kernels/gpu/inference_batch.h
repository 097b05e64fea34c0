// What every op that goes down the tree begins with on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/inference_arguments.h"
#include "cc/kernels/gpu/core_batch.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace gpu {

// Of scratch, unless one example alone needs more.
#ifdef TF_HSM_EMULATED
constexpr int64_t kMaxScratchBytes = 1 << 15;  // so that tests see many chunks
#else
constexpr int64_t kMaxScratchBytes = int64_t{1} << 30;
#endif

// Arguments, and the tree in device memory.
template <typename T>
class InferenceBatch {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  absl::Status Read(tensorflow::OpKernelContext* context) {
    TF_RETURN_IF_ERROR(
        arguments.Read(context, tensorflow::DataTypeToEnum<T>::value));
    TF_RETURN_IF_ERROR(FindDeviceTree(context, arguments.tree, &tree_));
    return SetBatch<T>(arguments.parameters, *arguments.inputs, *tree_, &batch);
  }

  const std::vector<int64_t>& levels() const { return tree_->levels; }

  // How many examples to take at a time, given the bytes of scratch of so many;
  // at least one.
  template <typename Bytes>
  int64_t Chunk(const Bytes& bytes) const {
    int64_t chunk = std::max<int64_t>(batch.size, 1);
    while (chunk > 1 && bytes(chunk) > kMaxScratchBytes)
      chunk = (chunk + 1) / 2;
    return chunk;
  }

  InferenceArguments arguments;
  Batch<Core> batch;

 private:
  std::shared_ptr<const DeviceTree> tree_;
};

template <typename V>
V* Data(const tensorflow::Tensor& tensor) {
  return static_cast<V*>(tensor.data());
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_
