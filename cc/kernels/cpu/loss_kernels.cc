// The loss op and its gradient on the CPU, for tensors and for variables.

#include <string>
#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/cpu/loss_batch.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parallel.h"
#include "cc/kernels/cpu/register.h"

namespace tf_hsm {
namespace {

template <typename T>
struct LossOp : LossAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    const bool with_state = with_gradients && (context->output_required(2) ||
                                               context->output_required(3));
    const bool with_probs =
        with_state && KeepsProbs<T>(in.plan, in.arguments.width, kMaxKeptBytes);
    Tensor *loss, *dx, *normalizers, *probs;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, in.arguments.batch_shape, &loss));
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, 1, in.arguments.DxShape(context, *this), &dx));
    TF_RETURN_IF_ERROR(context->allocate_output(
        2, TensorShape({with_state ? in.plan.num_passes : 0, 2}),
        &normalizers));
    TF_RETURN_IF_ERROR(AllocateOutput(
        context, 3, TensorShape({with_probs ? in.plan.num_probs : 0}), &probs));
    SetZero(in.parallel, loss);
    if (AddsDx(in.plan, loss->NumElements())) SetZero(in.parallel, dx);
    ForwardOutputs<T> outputs;
    outputs.loss = Data<A>(*loss);
    if (dx->NumElements() > 0) outputs.dx = Data<A>(*dx);
    if (with_state) outputs.normalizers = Data<A>(*normalizers);
    if (with_probs) outputs.probs = Data<A>(*probs);
    Forward<T>(in.problem, KernelTableFor<T>(ActiveIsa(nullptr)), in.parallel,
               outputs);
    return absl::OkStatus();
  }
};

template <typename T>
struct LossGradOp : LossAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    std::vector<A> loss_grads;
    const Tensor *normalizers, *probs;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    TF_RETURN_IF_ERROR(in.ReadLossGrads(context, &loss_grads));
    TF_RETURN_IF_ERROR(context->input("normalizers", &normalizers));
    TF_RETURN_IF_ERROR(context->input("probs", &probs));
    TF_RETURN_IF_ERROR(CheckKept("normalizers", *normalizers,
                                 TensorShape({in.plan.num_passes, 2})));
    const bool with_probs = probs->NumElements() > 0;
    if (with_probs) {
      TF_RETURN_IF_ERROR(
          CheckKept("probs", *probs, TensorShape({in.plan.num_probs})));
    }

    const TensorShape touched({in.plan.num_rows});
    Tensor *rows, *dw, *db;
    TF_RETURN_IF_ERROR(context->allocate_output(0, touched, &rows));
    TF_RETURN_IF_ERROR(AllocateOutput(
        context, 1, TensorShape({in.plan.num_rows, in.arguments.width}), &dw));
    TF_RETURN_IF_ERROR(context->allocate_output(2, touched, &db));
    TouchedRows(in.plan, Data<int64_t>(*rows));
    BackwardArguments<T> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = Data<A>(*normalizers);
    if (with_probs) arguments.probs = Data<A>(*probs);
    arguments.dw = Data<T>(*dw);
    arguments.db = Data<T>(*db);
    Backward<T>(in.problem, KernelTableFor<T>(ActiveIsa(nullptr)), in.parallel,
                arguments);
    return absl::OkStatus();
  }

  static absl::Status CheckKept(const char* name, const Tensor& tensor,
                                const TensorShape& shape) {
    if (tensor.shape() == shape) return absl::OkStatus();
    return absl::InvalidArgumentError(
        std::string(name) +
        " must be what the loss op made of these labels, of shape " +
        shape.DebugString() + ", but has the shape " +
        tensor.shape().DebugString());
  }
};

struct CpuIsaOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    std::string error;
    const Isa isa = ActiveIsa(&error);
    TF_RETURN_IF_ERROR(StatusOf(error));
    Tensor* name;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &name));
    name->scalar<tensorflow::tstring>()() = IsaName(isa);
    return absl::OkStatus();
  }
};

const KernelRegistration<LossOp> loss(kCpu, "TfHsmLoss");
const KernelRegistration<LossGradOp> loss_grad(kCpu, "TfHsmLossGrad");
REGISTER_KERNEL_BUILDER(Name("TfHsmCpuIsa").Device(tensorflow::DEVICE_CPU),
                        OpKernelOf<CpuIsaOp>);

}  // namespace
}  // namespace tf_hsm
