// What every op on a batch of labels begins with on a GPU, and what the losses
// keep for their gradient.

#ifndef TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/plan/label_plan.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/label_tree.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"

namespace tf_hsm::gpu {

// The most bytes of logits at a time; a label tree keeps them all.
#ifdef TF_HSM_EMULATED
constexpr int64_t kMaxLogitsBytes = 1 << 16;  // so that tests see chunks
#else
constexpr int64_t kMaxLogitsBytes = int64_t{1} << 30;
#endif

// The visits of label sets (label_tree.h), in host and in device memory.
struct VisitMemory {
  std::vector<char> host;
  DeviceMemory device;
};

// Arguments, the tree or the visits in device memory, and memory to work in.
template <typename T>
class LossBatch {
 public:
  using A = Accumulator<T>;

  // After arguments.parameters are read or written. `steps`: whether the op
  // makes a step too.
  absl::Status Prepare(OpKernelContext* context,
                       const LossAttributes& attributes, bool label_sets,
                       bool steps) {
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes, label_sets));
    TF_RETURN_IF_ERROR(label_sets ? SetLabelSets(context, attributes)
                                  : SetLabels(context, attributes));
    memory.logits_bytes = kMaxLogitsBytes;
    sizes_ = SizesOf(batch, memory.logits_bytes);
    TF_RETURN_IF_ERROR(scratch_.Allocate(
        context, steps ? sizes_.scratch() : sizes_.forward_scratch));
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
  std::shared_ptr<const DeviceTree> tree;     // of labels
  std::shared_ptr<const VisitMemory> visits;  // of label sets
  Batch<T> batch;
  Memory memory;
  DeviceMemory state;  // of memory.state

 private:
  absl::Status SetLabels(OpKernelContext* context,
                         const LossAttributes& attributes) {
    const std::vector<int64_t>& ignored = attributes.ignored;
    TF_RETURN_IF_ERROR(SetBatch(context, arguments, &batch, &tree));
    batch.labels = arguments.labels->data();
    batch.labels_are_int64 = arguments.labels->dtype() == tensorflow::DT_INT64;
    if (ignored.size() > static_cast<size_t>(kMaxIgnored)) {
      return InvalidArgument("ignore_classes must be at most ", kMaxIgnored,
                             " on a GPU, but are ", ignored.size());
    }
    batch.label_smoothing = attributes.label_smoothing;
    batch.smoothing_prior = Data<float>(arguments.smoothing_prior);
    batch.logit_soft_cap = attributes.logit_soft_cap;
    batch.z_loss = attributes.z_loss;
    batch.num_ignored = static_cast<int>(ignored.size());
    std::copy(ignored.begin(), ignored.end(), batch.ignored);
    return absl::OkStatus();
  }

  // The labels are in host memory, where the visits are planned.
  absl::Status SetLabelSets(OpKernelContext* context,
                            const LossAttributes& attributes) {
    LabelPlan plan;
    std::vector<int64_t> labels;
    CopyIntegers(*arguments.labels, &labels);
    TF_RETURN_IF_ERROR(StatusOf(MakeLabelPlan(
        arguments.tree, labels.data(), arguments.batch_shape.num_elements(),
        arguments.num_labels, attributes.ignored, PoolParallel(context),
        &plan)));
    constexpr size_t kMost = size_t{1} << 30;
    if (plan.plan.order.size() > kMost || plan.positives.size() > kMost) {
      return InvalidArgument("labels must make at most ", kMost,
                             " visits of groups on a GPU, but make ",
                             plan.plan.order.size());
    }
    TF_RETURN_IF_ERROR(SetInputs(context, arguments, &batch));
    batch.tree.num_rows = arguments.tree.num_rows;
    batch.tree.num_groups = arguments.tree.num_groups;
    auto made = std::make_shared<VisitMemory>();
    made->host = PlanVisits(plan, &batch);
    const auto bytes = static_cast<int64_t>(made->host.size());
    TF_RETURN_IF_ERROR(made->device.Allocate(context, bytes));
    batch.device_visits = made->device.data();
    visits = made;
    return CopyToDevice(context, made->host.data(), bytes, made->device.data());
  }

  MemorySizes sizes_;
  DeviceMemory scratch_;
};

template <typename T>
struct GpuLossState : LossState {
  GpuLossState(OpKernelContext* context, LossBatch<T>* in)
      : LossState(StateOf::kGpu, in->arguments),
        device(DeviceOf(context)),
        batch(in->batch),
        logits_bytes(in->memory.logits_bytes),
        tree(in->tree),
        visits(in->visits),
        memory(std::move(in->state)),
        labels(*in->arguments.labels),
        inputs(*in->arguments.inputs) {
    // The gradient op has these as its own inputs.
    batch.weights = batch.biases = nullptr;
    if (in->arguments.smoothing_prior != nullptr) {
      smoothing_prior = *in->arguments.smoothing_prior;
    }
  }

  const void* const device;
  Batch<T> batch;  // but for the parameters
  const int64_t logits_bytes;
  const std::shared_ptr<const DeviceTree> tree;
  const std::shared_ptr<const VisitMemory> visits;
  const DeviceMemory memory;
  // They keep what the batch points at.
  const Tensor labels, inputs;
  Tensor smoothing_prior;
  StreamMoment planned;  // of the forward: the number of rows is there
};

// A loss that an op continues from its state, with the op's parameters.
template <typename T>
struct KeptLoss {
  // After the parameters are read or written. `again`: whether the loss is
  // computed once more.
  absl::Status Read(OpKernelContext* context, const Parameters& parameters,
                    bool again = false) {
    const LossState* any_state;
    TF_RETURN_IF_ERROR(ReadLossState(context, StateOf::kGpu, parameters,
                                     &any_state, &loss_grads));
    state = static_cast<const GpuLossState<T>*>(any_state);
    if (state->device != DeviceOf(context)) {
      return InvalidArgument(
          "state must come from a loss on this GPU, but is another GPU's");
    }
    batch = state->batch;
    batch.weights = Data<T>(parameters.weights());
    batch.biases = Data<T>(parameters.biases());
    sizes = SizesOf(batch, state->logits_bytes);
    TF_RETURN_IF_ERROR(scratch.Allocate(
        context, again ? sizes.scratch() : sizes.backward_scratch));
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

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_LOSS_BATCH_H_
