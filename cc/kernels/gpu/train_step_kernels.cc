// The training step that updates its variables in place, on a GPU. The host
// waits for nothing of it, and reads no number: the learning rate may be a
// variable on the GPU.

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/gpu/loss_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename T>
struct TrainStepOp : TrainStepAttributes {
  using A = Accumulator<T>;

  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(TrainStepAttributes::Read(context));
    if (RunsOnGpus(rule)) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("a step in place by the rule ", TraitsOf(rule).name,
                     " is for CPUs; on GPUs, give the optimizer to "
                     "model.compile instead"));
  }

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    const Tensor* loss_grads;
    DeviceUpdate<T> update;
    LossOutputs<T> outputs;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Write(context, kDataType<T>,
                                                     kDataType<A>, rule));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    TF_RETURN_IF_ERROR(in.arguments.ReadLossGrads(context, &loss_grads));
    StepNumbers numbers;
    TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers));
    update.decays = numbers.decays;
    update.hyper = numbers.hyper;
    update.seed = numbers.seed;
    SetParameters(*this, in.arguments.parameters, &update);
    TF_RETURN_IF_ERROR(in.AllocateState(context));
    TF_RETURN_IF_ERROR(in.AllocateLoss(context, *this, &outputs));
    const A* factors = Data<const A>(*loss_grads);
    outputs.dx_factors = factors;
    void* stream = StreamOf(context);
    TF_RETURN_IF_ERROR(StatusOf(Forward(in.batch, in.memory, outputs, stream)));
    return StatusOf(ApplyUpdate(in.batch, in.memory, factors, update, stream));
  }
};

const KernelRegistration<TrainStepOp> train_step(kGpu, "TfHsmTrainStep",
                                                 LossHostMemory());

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
