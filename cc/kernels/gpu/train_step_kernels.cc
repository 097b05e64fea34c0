// The training step that updates its variables in place, on a GPU. The host
// waits for nothing of it.

#include "cc/kernels/common/train_step_arguments.h"
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
class TrainStepOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit TrainStepOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context));
  }

  void Compute(OpKernelContext* context) override {
    const UpdateRule rule = attributes_.rule;
    Parameters parameters;
    OP_REQUIRES_OK(context,
                   parameters.Write(context, DataTypeToEnum<T>::value,
                                    DataTypeToEnum<A>::value, NumSlots(rule),
                                    rule == UpdateRule::kRowwiseAdagrad));
    BatchArguments<T> in;
    const Tensor* loss_grads;
    Update<Core> update;
    OP_REQUIRES_OK(context,
                   in.Prepare(context, parameters, attributes_.ignored));
    OP_REQUIRES_OK(context, in.arguments.ReadLossGrads(context, &loss_grads));
    OP_REQUIRES_OK(context,
                   ReadUpdate(context, attributes_, parameters, &update));
    OP_REQUIRES_OK(context, in.AllocateState(context));
    const bool with_dx =
        attributes_.with_gradients && context->output_required(1);
    Tensor *loss, *dx;
    OP_REQUIRES_OK(
        context, context->allocate_output(0, in.arguments.batch_shape, &loss));
    OP_REQUIRES_OK(
        context,
        context->allocate_output(
            1, with_dx ? in.arguments.inputs->shape() : TensorShape({0}), &dx));
    const A* factors = static_cast<const A*>(loss_grads->data());
    LossOutputs<Core> outputs;
    outputs.loss = static_cast<A*>(loss->data());
    if (with_dx) outputs.dx = static_cast<A*>(dx->data());
    outputs.dx_factors = factors;
    void* stream = StreamOf(context);
    OP_REQUIRES_OK(context,
                   StatusOf(Forward(in.batch, in.memory, outputs, stream)));
    OP_REQUIRES_OK(context, StatusOf(ApplyUpdate(in.batch, in.memory, factors,
                                                 update, stream)));
  }

 private:
  TrainStepAttributes attributes_;
};

#define TF_HSM_REGISTER(T)                                           \
  TF_HSM_REGISTER_BATCH_OP("ResourceTfHsmTrainStep", TrainStepOp, T, \
                           .HostMemory("hyperparameters").HostMemory("seed"))
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
#undef TF_HSM_REGISTER

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
