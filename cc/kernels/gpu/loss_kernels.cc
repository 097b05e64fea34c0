// The loss op and its gradient on a GPU, for tensors and for variables.
//
// `probs` holds all that the forward leaves for the backward, in a layout of
// the core's own, and `normalizers` nothing. The backward believes none of it
// that becomes an index: see saved_state.h. A label out of range gives a loss
// of NaN and no gradient: to raise, the host would have to wait for the device.

#include <string>
#include <vector>

#include "cc/cuda/api/saved_state.h"
#include "cc/kernels/gpu/batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

using tensorflow::DataTypeToEnum;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
class LossOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit LossOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("ignore_classes", &ignored_));
    OP_REQUIRES_OK(context,
                   context->GetAttr("with_gradients", &with_gradients_));
  }

  void Compute(OpKernelContext* context) override {
    Parameters parameters;
    BatchArguments<T> in;
    OP_REQUIRES_OK(context, parameters.Read(context, DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(context, in.Prepare(context, parameters, ignored_));
    const bool with_dx = with_gradients_ && context->output_required(1);
    const bool with_state = with_gradients_ && context->output_required(3);
    Tensor *loss, *dx, *normalizers, *state;
    OP_REQUIRES_OK(
        context, context->allocate_output(0, in.arguments.batch_shape, &loss));
    OP_REQUIRES_OK(
        context,
        context->allocate_output(
            1, with_dx ? in.arguments.inputs->shape() : TensorShape({0}), &dx));
    OP_REQUIRES_OK(context, context->allocate_output(2, TensorShape({0, 2}),
                                                     &normalizers));
    OP_REQUIRES_OK(
        context,
        context->allocate_output(
            3, with_state ? in.StateShape() : TensorShape({0}), &state));
    if (with_state) {
      in.memory.state = state->data();
    } else {
      OP_REQUIRES_OK(context, in.AllocateState(context));
    }
    LossOutputs<Core> outputs;
    outputs.loss = static_cast<A*>(loss->data());
    if (with_dx) outputs.dx = static_cast<A*>(dx->data());
    OP_REQUIRES_OK(context, StatusOf(Forward<Core>(in.batch, in.memory, outputs,
                                                   StreamOf(context))));
  }

 private:
  std::vector<int64_t> ignored_;
  bool with_gradients_;
};

template <typename T>
class LossGradOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit LossGradOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("ignore_classes", &ignored_));
  }

  void Compute(OpKernelContext* context) override {
    Parameters parameters;
    BatchArguments<T> in;
    const Tensor *loss_grads, *state;
    OP_REQUIRES_OK(context, parameters.Read(context, DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(context, in.Prepare(context, parameters, ignored_));
    OP_REQUIRES_OK(context, in.arguments.ReadLossGrads(context, &loss_grads));
    OP_REQUIRES_OK(context, context->input("probs", &state));
    OP_REQUIRES(context, state->shape() == in.StateShape(),
                absl::InvalidArgumentError(
                    "probs must be what the loss op made of these labels on a "
                    "GPU, with the same setting of TensorFloat-32, of shape " +
                    in.StateShape().DebugString() + ", but has the shape " +
                    state->shape().DebugString()));
    Tensor losses;
    void* unread;
    OP_REQUIRES_OK(context, in.AllocateState(context));
    OP_REQUIRES_OK(context, AllocateBytes(context, in.batch.size * sizeof(A),
                                          &losses, &unread));
    OP_REQUIRES_OK(context, StatusOf(RestoreState<Core>(
                                in.batch, in.memory, state->data(),
                                static_cast<A*>(unread), StreamOf(context))));

    int64_t count = 0;
    OP_REQUIRES_OK(context, CountRows(context, in, &count));
    Tensor *rows, *dw, *db;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, TensorShape({count}), &rows));
    OP_REQUIRES_OK(context,
                   context->allocate_output(
                       1, TensorShape({count, in.arguments.width}), &dw));
    OP_REQUIRES_OK(context,
                   context->allocate_output(2, TensorShape({count}), &db));
    if (count == 0) return;
    RowGradients<Core> out;
    out.capacity = count;
    out.rows = static_cast<int64_t*>(rows->data());
    out.dw = static_cast<Core*>(dw->data());
    out.db = static_cast<Core*>(db->data());
    OP_REQUIRES_OK(context, StatusOf(Backward<Core>(
                                in.batch, in.memory,
                                static_cast<const A*>(loss_grads->data()), out,
                                StreamOf(context))));
  }

 private:
  // The shape of the outputs: the one number that the host waits for.
  static absl::Status CountRows(OpKernelContext* context,
                                const BatchArguments<T>& in, int64_t* count) {
    if (in.batch.size == 0) return absl::OkStatus();
    return CopyFromDevice(context, NumTouchedRows(in.batch, in.memory),
                          sizeof(*count), count);
  }

  std::vector<int64_t> ignored_;
};

#define TF_HSM_REGISTER(T)                                    \
  TF_HSM_REGISTER_BATCH_OP("TfHsmLoss", LossOp, T, );         \
  TF_HSM_REGISTER_BATCH_OP("ResourceTfHsmLoss", LossOp, T, ); \
  TF_HSM_REGISTER_BATCH_OP("TfHsmLossGrad", LossGradOp, T, ); \
  TF_HSM_REGISTER_BATCH_OP("ResourceTfHsmLossGrad", LossGradOp, T, )
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
#undef TF_HSM_REGISTER

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
