// What the losses on a GPU keep for their gradient.

#ifndef TF_HSM_CC_KERNELS_GPU_GPU_LOSS_STATE_H_
#define TF_HSM_CC_KERNELS_GPU_GPU_LOSS_STATE_H_

#include <memory>
#include <utility>

#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/loss_batch.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
struct GpuLossState : LossState {
  GpuLossState(OpKernelContext* context, LossBatch<T>* in)
      : LossState(StateOf::kGpu, in->arguments),
        device(DeviceOf(context)),
        batch(in->batch),
        logits_bytes(in->memory.logits_bytes),
        tree(in->tree),
        memory(std::move(in->state)),
        labels(*in->arguments.labels),
        inputs(*in->arguments.inputs) {
    // They are those of the op.
    batch.weights = batch.biases = nullptr;
    if (in->arguments.smoothing_prior != nullptr) {
      smoothing_prior = *in->arguments.smoothing_prior;
    }
  }

  const void* const device;
  Batch<T> batch;  // but for the parameters
  const int64_t logits_bytes;
  const std::shared_ptr<const DeviceTree> tree;
  const DeviceMemory memory;
  // They keep what the batch points at.
  const Tensor labels, inputs;
  Tensor smoothing_prior;
  StreamMoment planned;  // of the forward: the number of rows is there
};

// A loss that an op continues from its state, with the op's parameters.
template <typename T>
struct KeptLoss {
  // After the parameters are read or written.
  absl::Status Read(OpKernelContext* context, const Parameters& parameters) {
    const LossState* any_state;
    TF_RETURN_IF_ERROR(ReadLossState(context, StateOf::kGpu, parameters,
                                     &any_state, &loss_grads));
    state = static_cast<const GpuLossState<T>*>(any_state);
    if (state->device != DeviceOf(context)) {
      return absl::InvalidArgumentError(
          "state must be that of a loss on this GPU, but is of another's");
    }
    batch = state->batch;
    batch.weights = Data<T>(parameters.weights());
    if (parameters.biases() != nullptr) {
      batch.biases = Data<T>(*parameters.biases());
    }
    sizes = SizesOf(batch, state->logits_bytes);
    TF_RETURN_IF_ERROR(scratch.Allocate(context, sizes.scratch));
    memory = {state->memory.data(), scratch.data(), state->logits_bytes};
    return absl::OkStatus();
  }

  const GpuLossState<T>* state = nullptr;
  const Tensor* loss_grads = nullptr;
  Batch<T> batch;
  Memory memory;
  MemorySizes sizes;
  DeviceMemory scratch;  // of memory.scratch
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_GPU_LOSS_STATE_H_
