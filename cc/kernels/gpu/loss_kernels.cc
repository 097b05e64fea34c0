// The loss op and its gradient on a GPU, for tensors and for variables.
//
// `probs` holds all that the forward leaves for the backward, in a layout of
// the core's own, and `normalizers` nothing. The backward believes none of it
// that becomes an index: see saved_state.h. A label out of range gives a loss
// of NaN and no gradient: to raise, the host would have to wait for the device.

#include "cc/cuda/api/saved_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/loss_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename T>
struct LossOp : LossAttributes {
  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    const bool with_state = with_gradients && context->output_required(3);
    LossOutputs<T> outputs;
    Tensor *normalizers, *state;
    TF_RETURN_IF_ERROR(in.AllocateLoss(context, *this, &outputs));
    TF_RETURN_IF_ERROR(
        context->allocate_output(2, TensorShape({0, 2}), &normalizers));
    TF_RETURN_IF_ERROR(context->allocate_output(
        3, with_state ? in.StateShape() : TensorShape({0}), &state));
    if (with_state) {
      in.memory.state = state->data();
    } else {
      TF_RETURN_IF_ERROR(in.AllocateState(context));
    }
    return StatusOf(
        Forward<T>(in.batch, in.memory, outputs, StreamOf(context)));
  }
};

template <typename T>
struct LossGradOp : LossAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    const Tensor *loss_grads, *state;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    TF_RETURN_IF_ERROR(in.arguments.ReadLossGrads(context, &loss_grads));
    TF_RETURN_IF_ERROR(context->input("probs", &state));
    if (state->shape() != in.StateShape()) {
      return absl::InvalidArgumentError(
          "probs must be what the loss op made of these labels on a GPU, with "
          "the same setting of TensorFloat-32, of shape " +
          in.StateShape().DebugString() + ", but has the shape " +
          state->shape().DebugString());
    }
    DeviceMemory losses;
    TF_RETURN_IF_ERROR(in.AllocateState(context));
    TF_RETURN_IF_ERROR(losses.Allocate(context, in.batch.size * sizeof(A)));
    TF_RETURN_IF_ERROR(StatusOf(
        RestoreState<T>(in.batch, in.memory, state->data(),
                        static_cast<A*>(losses.data()), StreamOf(context))));

    // The shape of the outputs: the one number that the host waits for.
    int64_t count = 0;
    if (in.batch.size > 0) {
      TF_RETURN_IF_ERROR(CopyFromDevice(
          context, NumTouchedRows(in.batch, in.memory), sizeof(count), &count));
    }
    const TensorShape touched({count});
    Tensor *rows, *dw, *db;
    TF_RETURN_IF_ERROR(context->allocate_output(0, touched, &rows));
    TF_RETURN_IF_ERROR(context->allocate_output(
        1, TensorShape({count, in.arguments.width}), &dw));
    TF_RETURN_IF_ERROR(context->allocate_output(2, touched, &db));
    if (count == 0) return absl::OkStatus();
    const RowGradients<T> out = {count, Data<int64_t>(*rows), Data<T>(*dw),
                                 Data<T>(*db)};
    return StatusOf(Backward<T>(in.batch, in.memory, Data<const A>(*loss_grads),
                                out, StreamOf(context)));
  }
};

const KernelRegistration<LossOp> loss(kGpu, "TfHsmLoss", LossHostMemory());
const KernelRegistration<LossGradOp> loss_grad(kGpu, "TfHsmLossGrad",
                                               LossHostMemory());

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
