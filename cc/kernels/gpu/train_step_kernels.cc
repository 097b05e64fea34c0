// The steps that update their variables in place, on a GPU: with the loss, or
// after it. The host waits for nothing of them, and reads no number: the
// learning rate may be a variable on the GPU.

#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/gpu/loss_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm::gpu {
namespace {

// StepAttributes of a step on a GPU.
template <typename Attributes>
struct GpuStepAttributes : Attributes {
  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(Attributes::Read(context));
    if (RunsOnGpus(this->rule)) return absl::OkStatus();
    return Unimplemented("a step in place by the rule ",
                         TraitsOf(this->rule).name,
                         " is for CPUs; on GPUs, give the optimizer to "
                         "model.compile instead");
  }

  // Finds the numbers of the step, and points it at the parameters.
  template <typename T>
  absl::Status ReadUpdate(OpKernelContext* context,
                          const Parameters& parameters,
                          DeviceUpdate<T>* update) const {
    StepNumbers numbers;
    TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers));
    update->decays = numbers.decays;
    update->hyper = numbers.hyper;
    update->seed = numbers.seed;
    SetParameters(*this, parameters, update);
    return absl::OkStatus();
  }
};

template <typename T, bool label_sets = false>
struct TrainStepOp : GpuStepAttributes<TrainStepAttributes> {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    const Tensor* loss_grads;
    DeviceUpdate<T> update;
    LossOutputs<T> outputs;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Write(context, kDataType<T>,
                                                     kDataType<A>, rule));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this, label_sets, /*steps=*/true));
    TF_RETURN_IF_ERROR(
        ReadLossGrads(context, in.arguments.batch_shape, &loss_grads));
    TF_RETURN_IF_ERROR(ReadUpdate(context, in.arguments.parameters, &update));
    TF_RETURN_IF_ERROR(in.AllocateState(context));
    TF_RETURN_IF_ERROR(in.AllocateLoss(context, *this, &outputs));
    const A* factors = Data<const A>(*loss_grads);
    outputs.dx_factors = factors;
    return StatusOf(TrainStep(in.batch, in.memory, outputs, factors, update,
                              StreamOf(context)));
  }
};

template <typename T>
using LabelTreeTrainStepOp = TrainStepOp<T, true>;

template <typename T>
struct LossStepOp : GpuStepAttributes<LossStepAttributes> {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    Parameters parameters;
    KeptLoss<T> in;
    DeviceUpdate<T> update;
    bool moved;
    TF_RETURN_IF_ERROR(
        parameters.Write(context, kDataType<T>, kDataType<A>, rule));
    TF_RETURN_IF_ERROR(ReadMoved(context, &moved));
    TF_RETURN_IF_ERROR(in.Read(context, parameters, /*again=*/moved));
    TF_RETURN_IF_ERROR(ReadUpdate(context, parameters, &update));
    void* stream = StreamOf(context);
    DeviceMemory state, loss;
    if (moved) {
      LossOutputs<T> outputs;
      TF_RETURN_IF_ERROR(state.Allocate(context, in.sizes.state));
      TF_RETURN_IF_ERROR(loss.Allocate(context, in.batch.size * sizeof(A)));
      in.memory.state = state.data();
      outputs.loss = static_cast<A*>(loss.data());
      TF_RETURN_IF_ERROR(
          StatusOf(Forward(in.batch, in.memory, outputs, stream)));
    }
    return StatusOf(ApplyUpdate(in.batch, in.memory,
                                Data<const A>(*in.loss_grads), update, stream));
  }
};

const KernelRegistration<TrainStepOp> train_step(kGpu, "TfHsmTrainStep",
                                                 LossHostMemory());
const KernelRegistration<LabelTreeTrainStepOp> label_tree_train_step(
    kGpu, "TfHsmLabelTreeTrainStep", LossHostMemory({"labels"}));
const KernelRegistration<LossStepOp> loss_step(kGpu, "TfHsmLossStep",
                                               {"moved"});

}  // namespace
}  // namespace tf_hsm::gpu
