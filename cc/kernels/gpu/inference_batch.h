// What every op that goes down the tree begins with on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_

#include <algorithm>
#include <memory>

#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/inference_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"

namespace tf_hsm::gpu {

// The most bytes of scratch, unless one example alone needs more.
#ifdef TF_HSM_EMULATED
constexpr int64_t kMaxScratchBytes = 1 << 15;  // so that tests see many chunks
#else
constexpr int64_t kMaxScratchBytes = int64_t{1} << 30;
#endif

// Arguments, and the tree in device memory.
template <typename T>
class InferenceBatch {
 public:
  absl::Status Read(OpKernelContext* context,
                    const TreeAttributes& attributes) {
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes, kDataType<T>));
    if (arguments.quantized.codes != nullptr) {
      return Unimplemented(
          "quantized weights are on the CPU only; keep them there");
    }
    TF_RETURN_IF_ERROR(SetBatch(context, arguments, &batch, &tree_));
    batch.logit_soft_cap = attributes.logit_soft_cap;
    batch.root_log_probs = Data<const Accumulator<T>>(arguments.root_log_probs);
    return absl::OkStatus();
  }

  const Levels& levels() const { return tree_->levels; }

  // Finds how many examples to take at a time, at least one. Allocates the
  // scratch for them, bytes(chunk) bytes.
  template <typename Bytes>
  absl::Status AllocateChunk(OpKernelContext* context, const Bytes& bytes) {
    chunk = std::max<int64_t>(batch.size, 1);
    while (chunk > 1 && bytes(chunk) > kMaxScratchBytes)
      chunk = (chunk + 1) / 2;
    return scratch.Allocate(context, bytes(chunk));
  }

  InferenceArguments arguments;
  Batch<T> batch;
  int64_t chunk = 0;
  DeviceMemory scratch;

 private:
  std::shared_ptr<const DeviceTree> tree_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_INFERENCE_BATCH_H_
