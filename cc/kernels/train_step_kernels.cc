// The training step that updates its variables in place, on the CPU.

#include <string>
#include <vector>

#include "cc/core/isa.h"
#include "cc/core/kernels.h"
#include "cc/core/loss.h"
#include "cc/core/update.h"
#include "cc/kernels/batch.h"
#include "cc/kernels/page_pool.h"
#include "cc/kernels/parallel.h"
#include "cc/kernels/parameters.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace {

using tensorflow::DataTypeToEnum;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

absl::Status RuleOf(const std::string& name, UpdateRule* rule) {
  if (name == "sgd") {
    *rule = UpdateRule::kSgd;
  } else if (name == "adagrad") {
    *rule = UpdateRule::kAdagrad;
  } else if (name == "rowwise_adagrad") {
    *rule = UpdateRule::kRowwiseAdagrad;
  } else if (name == "adam") {
    *rule = UpdateRule::kAdam;
  } else {
    return absl::InvalidArgumentError("rule: there is no " + name);
  }
  return absl::OkStatus();
}

template <typename T>
class TrainStepOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit TrainStepOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("ignore_classes", &ignored_));
    OP_REQUIRES_OK(context,
                   context->GetAttr("with_gradients", &with_gradients_));
    OP_REQUIRES_OK(context, context->GetAttr("stochastic_rounding",
                                             &stochastic_rounding_));
    std::string rule;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, RuleOf(rule, &rule_));
  }

  void Compute(OpKernelContext* context) override {
    const Parallel parallel = PoolParallel(context);
    Parameters parameters;
    OP_REQUIRES_OK(context,
                   parameters.Write(context, DataTypeToEnum<T>::value,
                                    DataTypeToEnum<A>::value, NumSlots(rule_),
                                    rule_ == UpdateRule::kRowwiseAdagrad));
    Batch<T> batch;
    OP_REQUIRES_OK(context,
                   batch.Prepare(context, parameters, ignored_, parallel));
    Plan& plan = batch.plan;
    PlanTraining(&plan);
    std::vector<A> loss_grads;
    Update<Core> update;
    OP_REQUIRES_OK(context, batch.ReadLossGrads(context, &loss_grads));
    OP_REQUIRES_OK(context, ReadUpdate(context, parameters, &update));

    const bool with_dx = with_gradients_ && context->output_required(1);
    const bool with_probs =
        KeepsProbs<Core>(plan, batch.arguments.width, kMaxStepBytes);
    Tensor *loss, *dx;
    Tensor normalizers, probs;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, batch.arguments.batch_shape, &loss));
    OP_REQUIRES_OK(
        context,
        AllocateOutput(
            context, 1,
            with_dx ? batch.arguments.inputs->shape() : TensorShape({0}), &dx));
    OP_REQUIRES_OK(
        context, AllocateTemp(context, DataTypeToEnum<A>::value,
                              TensorShape({plan.num_passes, 2}), &normalizers));
    OP_REQUIRES_OK(
        context,
        AllocateTemp(context, DataTypeToEnum<A>::value,
                     TensorShape({with_probs ? plan.num_probs : 0}), &probs));
    SetZero(parallel, loss);
    SetZero(parallel, dx);
    ForwardOutputs<Core> outputs;
    outputs.loss = Batch<T>::template Data<A>(*loss);
    if (with_dx) outputs.dx = Batch<T>::template Data<A>(*dx);
    outputs.normalizers = Batch<T>::template Data<A>(normalizers);
    if (with_probs) outputs.probs = Batch<T>::template Data<A>(probs);
    BackwardArguments<Core> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = outputs.normalizers;
    arguments.probs = outputs.probs;
    arguments.update = &update;
    TrainStep<Core>(batch.problem, KernelsFor<Core>(ActiveIsa(nullptr)),
                    parallel, outputs, arguments);
  }

 private:
  absl::Status ReadUpdate(OpKernelContext* context,
                          const Parameters& parameters,
                          Update<Core>* update) const {
    const Tensor *hyper, *seed;
    TF_RETURN_IF_ERROR(context->input("hyperparameters", &hyper));
    TF_RETURN_IF_ERROR(context->input("seed", &seed));
    if (hyper->shape() != TensorShape({4})) {
      return absl::InvalidArgumentError(
          "hyperparameters must have the shape [4], but have " +
          hyper->shape().DebugString());
    }
    if (seed->dims() != 0) {
      return absl::InvalidArgumentError(
          "seed must be a scalar, but has the shape " +
          seed->shape().DebugString());
    }
    const double* values = static_cast<const double*>(hyper->data());
    update->rule = rule_;
    update->hyper = {values[0], values[1], values[2], values[3]};
    update->stochastic = stochastic_rounding_;
    update->seed = *static_cast<const int64_t*>(seed->data());
    update->weights = Batch<T>::template Data<T>(parameters.weights());
    if (parameters.biases() != nullptr) {
      update->biases = Batch<T>::template Data<T>(*parameters.biases());
    }
    for (int s = 0; s < NumSlots(rule_); ++s) {
      update->weight_slots[s] =
          Batch<T>::template Data<A>(*parameters.weight_slots()[s]);
      if (parameters.biases() == nullptr) continue;
      update->bias_slots[s] =
          Batch<T>::template Data<A>(*parameters.bias_slots()[s]);
    }
    return absl::OkStatus();
  }

  std::vector<int64_t> ignored_;
  bool with_gradients_;
  bool stochastic_rounding_;
  UpdateRule rule_;
};

#define TF_HSM_REGISTER(T)                                                 \
  REGISTER_KERNEL_BUILDER(                                                 \
      Name("ResourceTfHsmTrainStep")                                       \
          .Device(tensorflow::DEVICE_CPU)                                  \
          .TypeConstraint<T>("T")                                          \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator"), \
      TrainStepOp<T>)
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
#undef TF_HSM_REGISTER

}  // namespace
}  // namespace tf_hsm
