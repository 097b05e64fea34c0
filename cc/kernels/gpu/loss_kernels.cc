// The loss op and its gradient on a GPU, for tensors and for variables.
//
// A label out of range gives a loss of NaN and no gradient: to raise, the host
// would have to wait for the device. The gradient waits, but for the plan of
// the forward alone, which says how many rows there are.

#include <memory>
#include <utility>

#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/loss_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename T>
struct GpuLossState : LossState {
  GpuLossState(OpKernelContext* context, LossBatch<T>* in)
      : LossState(StateOf::kGpu, in->arguments),
        device(DeviceOf(context)),
        batch(in->batch),
        logits_bytes(in->memory.logits_bytes),
        tree(in->tree),
        memory(std::move(in->state)) {
    // They are those of the op.
    batch.labels = batch.inputs = nullptr;
    batch.weights = batch.biases = nullptr;
    if (in->arguments.smoothing_prior != nullptr) {
      smoothing_prior = *in->arguments.smoothing_prior;
    }
  }

  const void* const device;
  Batch<T> batch;  // all that a backward needs, but for the parameters
  const int64_t logits_bytes;
  const std::shared_ptr<const DeviceTree> tree;
  const DeviceMemory memory;
  Tensor smoothing_prior;  // keeps what the batch points at
  StreamPoint planned;     // of the forward: the number of rows is there
};

template <typename T>
struct LossOp : LossAttributes {
  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    LossOutputs<T> outputs;
    TF_RETURN_IF_ERROR(in.AllocateLoss(context, *this, &outputs));
    TF_RETURN_IF_ERROR(in.AllocateState(context));
    void* stream = StreamOf(context);
    TF_RETURN_IF_ERROR(
        StatusOf(PlanForward(in.batch, in.memory, outputs.loss, stream)));
    std::shared_ptr<GpuLossState<T>> state;
    if (with_gradients && context->output_required(2)) {
      state = std::make_shared<GpuLossState<T>>(context, &in);
      TF_RETURN_IF_ERROR(state->planned.Record(context));
    }
    TF_RETURN_IF_ERROR(
        StatusOf(FinishForward(in.batch, in.memory, outputs, stream)));
    return SetLossState(context, 2, std::move(state));
  }
};

template <typename T>
struct LossGradOp : OpAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    Parameters parameters;
    const LossState* any_state;
    const Tensor* loss_grads;
    TF_RETURN_IF_ERROR(parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(ReadLossState(context, StateOf::kGpu, parameters,
                                     &any_state, &loss_grads));
    const auto& state = static_cast<const GpuLossState<T>&>(*any_state);
    if (state.device != DeviceOf(context)) {
      return absl::InvalidArgumentError(
          "state must be that of a loss on this GPU, but is of another's");
    }
    Batch<T> batch = state.batch;
    batch.weights = Data<T>(parameters.weights());
    if (parameters.biases() != nullptr) {
      batch.biases = Data<T>(*parameters.biases());
    }
    DeviceMemory scratch;
    const MemorySizes sizes = SizesOf(batch, state.logits_bytes);
    TF_RETURN_IF_ERROR(scratch.Allocate(context, sizes.scratch));
    const Memory memory = {state.memory.data(), scratch.data(),
                           state.logits_bytes};

    // The shape of the outputs: the one number that the host waits for.
    int64_t count = 0;
    if (batch.size > 0) {
      TF_RETURN_IF_ERROR(state.planned.CopyFromDevice(
          context, NumTouchedRows(batch, memory), sizeof(count), &count));
    }
    const TensorShape touched({count});
    Tensor *rows, *dw, *db;
    TF_RETURN_IF_ERROR(context->allocate_output(0, touched, &rows));
    TF_RETURN_IF_ERROR(
        context->allocate_output(1, TensorShape({count, batch.width}), &dw));
    TF_RETURN_IF_ERROR(context->allocate_output(2, touched, &db));
    if (count == 0) return absl::OkStatus();
    const RowGradients<T> out = {count, Data<int64_t>(*rows), Data<T>(*dw),
                                 Data<T>(*db)};
    return StatusOf(Backward<T>(batch, memory, Data<const A>(*loss_grads), out,
                                StreamOf(context)));
  }
};

const KernelRegistration<LossOp> loss(kGpu, "TfHsmLoss", LossHostMemory());
const KernelRegistration<LossGradOp> loss_grad(kGpu, "TfHsmLossGrad");

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
