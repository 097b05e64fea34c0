// The training steps that update their variables in place, on the CPU.

#include <new>
#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/common/train_step_arguments.h"
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

// With `embeds`, of inputs that are rows of a variable, which are updated too.
template <typename T, bool embeds>
class TrainStepOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit TrainStepOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context));
  }

  void Compute(OpKernelContext* context) override {
    const Parallel parallel = PoolParallel(context);
    const UpdateRule rule = attributes_.rule;
    Parameters parameters;
    OP_REQUIRES_OK(
        context, parameters.Write(context, DataTypeToEnum<T>::value,
                                  DataTypeToEnum<A>::value, NumSlots(rule),
                                  rule == UpdateRule::kRowwiseAdagrad, embeds));
    Batch<T> batch;
    OP_REQUIRES_OK(context, batch.Prepare(context, parameters,
                                          attributes_.ignored, parallel));
    Plan& plan = batch.plan;
    PlanTraining(&plan, MaxPartials<Core>(batch.arguments.width));
    std::vector<A> loss_grads;
    Update<Core> update;
    OP_REQUIRES_OK(context, batch.ReadLossGrads(context, &loss_grads));
    OP_REQUIRES_OK(context,
                   ReadUpdate(context, attributes_, parameters, &update));

    const bool with_probs =
        KeepsProbs<Core>(plan, batch.arguments.width, kMaxStepBytes);
    Tensor *loss, dx;
    Tensor normalizers, probs, partials;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, batch.arguments.batch_shape, &loss));
    OP_REQUIRES_OK(context, AllocateDx(context, batch, &dx));
    OP_REQUIRES_OK(
        context,
        AllocateTemp(context, DataTypeToEnum<A>::value,
                     TensorShape({with_probs ? 0 : plan.num_passes, 2}),
                     &normalizers));
    OP_REQUIRES_OK(
        context,
        AllocateTemp(context, DataTypeToEnum<A>::value,
                     TensorShape({with_probs ? plan.num_probs : 0}), &probs));
    OP_REQUIRES_OK(
        context,
        AllocateTemp(context, DataTypeToEnum<A>::value,
                     TensorShape({plan.num_partials,
                                  PartialStride(batch.arguments.width)}),
                     &partials));
    SetZero(parallel, loss);
    const int64_t dx_rows = embeds ? plan.num_examples() : loss->NumElements();
    if (AddsDx(plan, dx_rows)) SetZero(parallel, &dx);
    ForwardOutputs<Core> outputs;
    outputs.loss = Batch<T>::template Data<A>(*loss);
    if (dx.NumElements() > 0) outputs.dx = Batch<T>::template Data<A>(dx);
    outputs.dx_is_sorted = embeds;
    if (with_probs) {
      outputs.probs = Batch<T>::template Data<A>(probs);
    } else {
      outputs.normalizers = Batch<T>::template Data<A>(normalizers);
    }
    BackwardArguments<Core> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = outputs.normalizers;
    arguments.probs = outputs.probs;
    arguments.update = &update;
    arguments.partials = Batch<T>::template Data<A>(partials);
    try {
      TrainStep<Core>(batch.problem, KernelTableFor<Core>(ActiveIsa(nullptr)),
                      parallel, outputs, arguments);
      if constexpr (embeds) {
        const SparseGradient<Core> gradient = {
            batch.vector_rows.data(), outputs.dx,
            static_cast<int64_t>(batch.vector_rows.size()),
            batch.arguments.width};
        SparseUpdate<Core>(UpdateOfVectors(update, parameters), gradient,
                           parallel);
      }
    } catch (const std::bad_alloc&) {
      context->CtxFailure(absl::ResourceExhaustedError(
          "no memory for the scratch of a step, which may be half done"));
    }
  }

 private:
  // [examples, width], sorted, of vectors that are updated; otherwise the op's
  // output, empty where nobody asks for it.
  absl::Status AllocateDx(OpKernelContext* context, const Batch<T>& batch,
                          Tensor* dx) const {
    if constexpr (embeds) {
      return AllocateTemp(
          context, DataTypeToEnum<A>::value,
          TensorShape({batch.plan.num_examples(), batch.arguments.width}), dx);
    } else {
      const bool wanted =
          attributes_.with_gradients && context->output_required(1);
      const TensorShape shape =
          wanted ? batch.arguments.inputs->shape() : TensorShape({0});
      Tensor* output;
      TF_RETURN_IF_ERROR(AllocateOutput(context, 1, shape, &output));
      *dx = *output;
      return absl::OkStatus();
    }
  }

  TrainStepAttributes attributes_;
};

#define TF_HSM_REGISTER_OP(name, T, embeds)                                \
  REGISTER_KERNEL_BUILDER(                                                 \
      Name(name)                                                           \
          .Device(tensorflow::DEVICE_CPU)                                  \
          .TypeConstraint<T>("T")                                          \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator"), \
      TrainStepOp<T, embeds>)
#define TF_HSM_REGISTER(T)                                \
  TF_HSM_REGISTER_OP("ResourceTfHsmTrainStep", T, false); \
  TF_HSM_REGISTER_OP("ResourceTfHsmEmbeddingTrainStep", T, true)
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
#undef TF_HSM_REGISTER
#undef TF_HSM_REGISTER_OP

}  // namespace
}  // namespace tf_hsm
