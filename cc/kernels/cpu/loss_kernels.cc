// The loss op and its gradient on the CPU, for tensors and for variables.

#include <string>
#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/kernels/cpu/batch.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
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
    const Parallel parallel = PoolParallel(context);
    Parameters parameters;
    Batch<T> batch;
    OP_REQUIRES_OK(context, parameters.Read(context, DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(context,
                   batch.Prepare(context, parameters, ignored_, parallel));
    const Plan& plan = batch.plan;
    const bool with_dx = with_gradients_ && context->output_required(1);
    const bool with_state = with_gradients_ && (context->output_required(2) ||
                                                context->output_required(3));
    const bool with_probs =
        with_state &&
        KeepsProbs<Core>(plan, batch.arguments.width, kMaxKeptBytes);
    Tensor *loss, *dx, *normalizers, *probs;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, batch.arguments.batch_shape, &loss));
    OP_REQUIRES_OK(
        context,
        AllocateOutput(
            context, 1,
            with_dx ? batch.arguments.inputs->shape() : TensorShape({0}), &dx));
    OP_REQUIRES_OK(context,
                   context->allocate_output(
                       2, TensorShape({with_state ? plan.num_passes : 0, 2}),
                       &normalizers));
    OP_REQUIRES_OK(
        context,
        AllocateOutput(context, 3,
                       TensorShape({with_probs ? plan.num_probs : 0}), &probs));
    SetZero(parallel, loss);
    if (AddsDx(plan, loss->NumElements())) SetZero(parallel, dx);
    ForwardOutputs<Core> outputs;
    outputs.loss = loss->flat<A>().data();
    if (with_dx) outputs.dx = dx->flat<A>().data();
    if (with_state) outputs.normalizers = normalizers->flat<A>().data();
    if (with_probs) outputs.probs = probs->flat<A>().data();
    Forward<Core>(batch.problem, KernelTableFor<Core>(ActiveIsa(nullptr)),
                  parallel, outputs);
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
    const Parallel parallel = PoolParallel(context);
    Parameters parameters;
    Batch<T> batch;
    OP_REQUIRES_OK(context, parameters.Read(context, DataTypeToEnum<T>::value));
    OP_REQUIRES_OK(context,
                   batch.Prepare(context, parameters, ignored_, parallel));
    const Plan& plan = batch.plan;
    const Tensor *normalizers, *probs;
    std::vector<A> loss_grads;
    OP_REQUIRES_OK(context, batch.ReadLossGrads(context, &loss_grads));
    OP_REQUIRES_OK(context, context->input("normalizers", &normalizers));
    OP_REQUIRES_OK(context, context->input("probs", &probs));
    OP_REQUIRES_OK(context, CheckKept("normalizers", *normalizers,
                                      TensorShape({plan.num_passes, 2})));
    if (probs->NumElements() > 0) {
      OP_REQUIRES_OK(context,
                     CheckKept("probs", *probs, TensorShape({plan.num_probs})));
    }

    Tensor *rows, *dw, *db;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, TensorShape({plan.num_rows}), &rows));
    OP_REQUIRES_OK(
        context, AllocateOutput(
                     context, 1,
                     TensorShape({plan.num_rows, batch.arguments.width}), &dw));
    OP_REQUIRES_OK(context, context->allocate_output(
                                2, TensorShape({plan.num_rows}), &db));
    TouchedRows(plan, rows->flat<int64_t>().data());
    BackwardArguments<Core> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = Batch<T>::template Data<A>(*normalizers);
    if (probs->NumElements() > 0)
      arguments.probs = Batch<T>::template Data<A>(*probs);
    arguments.dw = reinterpret_cast<Core*>(dw->flat<T>().data());
    arguments.db = reinterpret_cast<Core*>(db->flat<T>().data());
    Backward<Core>(batch.problem, KernelTableFor<Core>(ActiveIsa(nullptr)),
                   parallel, arguments);
  }

 private:
  static absl::Status CheckKept(const char* name, const Tensor& tensor,
                                const TensorShape& shape) {
    if (tensor.shape() == shape) return absl::OkStatus();
    return absl::InvalidArgumentError(
        std::string(name) +
        " must be what the loss op made of these labels, of shape " +
        shape.DebugString() + ", but has the shape " +
        tensor.shape().DebugString());
  }

  std::vector<int64_t> ignored_;
};

class CpuIsaOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    std::string error;
    const Isa isa = ActiveIsa(&error);
    OP_REQUIRES(context, error.empty(), absl::InvalidArgumentError(error));
    Tensor* name;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &name));
    name->scalar<tensorflow::tstring>()() = IsaName(isa);
  }
};

#define TF_HSM_REGISTER_ONE(name, kernel, T)                               \
  REGISTER_KERNEL_BUILDER(                                                 \
      Name(name)                                                           \
          .Device(tensorflow::DEVICE_CPU)                                  \
          .TypeConstraint<T>("T")                                          \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator"), \
      kernel<T>)
#define TF_HSM_REGISTER(T)                             \
  TF_HSM_REGISTER_ONE("TfHsmLoss", LossOp, T);         \
  TF_HSM_REGISTER_ONE("ResourceTfHsmLoss", LossOp, T); \
  TF_HSM_REGISTER_ONE("TfHsmLossGrad", LossGradOp, T); \
  TF_HSM_REGISTER_ONE("ResourceTfHsmLossGrad", LossGradOp, T)
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
REGISTER_KERNEL_BUILDER(Name("TfHsmCpuIsa").Device(tensorflow::DEVICE_CPU),
                        CpuIsaOp);
#undef TF_HSM_REGISTER
#undef TF_HSM_REGISTER_ONE

}  // namespace
}  // namespace tf_hsm
