// What every op on a batch of labels begins with on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/core_batch.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"

namespace tf_hsm {
namespace gpu {

// The most bytes of logits that stay for the backward.
constexpr int64_t kMaxLogitsBytes = int64_t{1} << 30;

// Arguments, the tree in device memory, and memory to work in.
template <typename T>
class LossBatch {
 public:
  using A = Accumulator<T>;

  // After arguments.parameters are read or written.
  absl::Status Prepare(OpKernelContext* context,
                       const LossAttributes& attributes) {
    const std::vector<int64_t>& ignored = attributes.ignored;
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes));
    TF_RETURN_IF_ERROR(SetBatch(context, arguments, &batch, &tree));
    batch.labels = arguments.labels->data();
    batch.labels_are_int64 = arguments.labels->dtype() == tensorflow::DT_INT64;
    if (ignored.size() > static_cast<size_t>(kMaxIgnored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("ignore_classes must be at most ", kMaxIgnored,
                       " on a GPU, but are ", ignored.size()));
    }
    batch.label_smoothing = attributes.label_smoothing;
    if (arguments.smoothing_prior != nullptr) {
      batch.smoothing_prior = Data<float>(*arguments.smoothing_prior);
    }
    batch.num_ignored = static_cast<int>(ignored.size());
    std::copy(ignored.begin(), ignored.end(), batch.ignored);
    memory.logits_bytes = kMaxLogitsBytes;
    sizes_ = SizesOf(batch, memory.logits_bytes);
    TF_RETURN_IF_ERROR(scratch_.Allocate(context, sizes_.scratch));
    memory.scratch = scratch_.data();
    return absl::OkStatus();
  }

  // Allocates what the forward leaves for the backward.
  absl::Status AllocateState(OpKernelContext* context) {
    TF_RETURN_IF_ERROR(state.Allocate(context, sizes_.state));
    memory.state = state.data();
    return absl::OkStatus();
  }

  // Allocates the op's outputs number 0 and 1, the losses and, where it is
  // asked for, the gradient by the inputs.
  absl::Status AllocateLoss(OpKernelContext* context,
                            const LossAttributes& attributes,
                            LossOutputs<T>* outputs) const {
    Tensor *loss, *dx;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, arguments.batch_shape, &loss));
    TF_RETURN_IF_ERROR(context->allocate_output(
        1, arguments.DxShape(context, attributes), &dx));
    outputs->loss = Data<A>(*loss);
    if (dx->NumElements() > 0) outputs->dx = Data<A>(*dx);
    return absl::OkStatus();
  }

  LossArguments arguments;
  std::shared_ptr<const DeviceTree> tree;
  Batch<T> batch;
  Memory memory;
  DeviceMemory state;  // of memory.state

 private:
  MemorySizes sizes_;
  DeviceMemory scratch_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_
