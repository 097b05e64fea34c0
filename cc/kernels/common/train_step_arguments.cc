#include "cc/kernels/common/train_step_arguments.h"

#include <string>

namespace tf_hsm {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

}  // namespace

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

absl::Status TrainStepAttributes::Read(OpKernelConstruction* context) {
  std::string name;
  TF_RETURN_IF_ERROR(context->GetAttr("ignore_classes", &ignored));
  if (context->HasAttr("with_gradients")) {
    TF_RETURN_IF_ERROR(context->GetAttr("with_gradients", &with_gradients));
  }
  TF_RETURN_IF_ERROR(
      context->GetAttr("stochastic_rounding", &stochastic_rounding));
  TF_RETURN_IF_ERROR(context->GetAttr("rule", &name));
  return RuleOf(name, &rule);
}

absl::Status ReadHyperparameters(OpKernelContext* context,
                                 Hyperparameters* hyper, uint64_t* seed) {
  const Tensor *values, *number;
  TF_RETURN_IF_ERROR(context->input("hyperparameters", &values));
  TF_RETURN_IF_ERROR(context->input("seed", &number));
  if (values->shape() != TensorShape({4})) {
    return absl::InvalidArgumentError(
        "hyperparameters must have the shape [4], but have " +
        values->shape().DebugString());
  }
  if (number->dims() != 0) {
    return absl::InvalidArgumentError(
        "seed must be a scalar, but has the shape " +
        number->shape().DebugString());
  }
  const double* data = static_cast<const double*>(values->data());
  *hyper = {data[0], data[1], data[2], data[3]};
  *seed = *static_cast<const int64_t*>(number->data());
  return absl::OkStatus();
}

}  // namespace tf_hsm
