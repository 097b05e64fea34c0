// The loss op and its gradient on a GPU, for tensors and for variables.
//
// A label out of range gives a loss of NaN and no gradient: to raise, the host
// would have to wait for the device. In a label tree, whose labels the host
// reads, it raises an error. The gradient waits, but for the plan of
// the forward alone, which says how many rows there are.

#include <memory>
#include <utility>

#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/loss_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm::gpu {
namespace {

template <typename T, bool label_sets = false>
struct LossOp : LossAttributes {
  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this, label_sets, /*steps=*/false));
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
using LabelTreeLossOp = LossOp<T, true>;

template <typename T>
struct LossGradOp : OpAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    Parameters parameters;
    KeptLoss<T> in;
    TF_RETURN_IF_ERROR(parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Read(context, parameters));

    // The shape of the outputs: the one number that the host waits for.
    int64_t count = 0;
    if (in.batch.size > 0) {
      TF_RETURN_IF_ERROR(in.state->planned.CopyFromDevice(
          context, NumTouchedRows(in.batch, in.memory), sizeof(count), &count));
    }
    const TensorShape touched({count});
    Tensor *rows, *dw, *db;
    TF_RETURN_IF_ERROR(context->allocate_output(0, touched, &rows));
    TF_RETURN_IF_ERROR(
        context->allocate_output(1, TensorShape({count, in.batch.width}), &dw));
    TF_RETURN_IF_ERROR(context->allocate_output(2, touched, &db));
    if (count == 0) return absl::OkStatus();
    const RowGradients<T> out = {count, Data<int64_t>(*rows), Data<T>(*dw),
                                 Data<T>(*db)};
    return StatusOf(Backward<T>(in.batch, in.memory,
                                Data<const A>(*in.loss_grads), out,
                                StreamOf(context)));
  }
};

const KernelRegistration<LossOp> loss(kGpu, "TfHsmLoss", LossHostMemory());
const KernelRegistration<LabelTreeLossOp> label_tree_loss(
    kGpu, "TfHsmLabelTreeLoss", LossHostMemory({"labels"}));
const KernelRegistration<LossGradOp> loss_grad(kGpu, "TfHsmLossGrad");

}  // namespace
}  // namespace tf_hsm::gpu
