#include "cc/kernels/common/train_step_arguments.h"

#include <string>

#include "cc/kernels/common/arguments.h"

namespace tf_hsm {

absl::Status ReadRule(OpKernelConstruction* context, UpdateRule* rule) {
  std::string name;
  TF_RETURN_IF_ERROR(context->GetAttr("rule", &name));
  for (const RuleTraits& traits : kUpdateRules) {
    if (name != traits.name) continue;
    *rule = traits.rule;
    return absl::OkStatus();
  }
  return InvalidArgument("rule: there is no " + name);
}

absl::Status ReadMoved(OpKernelContext* context, bool* moved) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input("moved", &tensor));
  TF_RETURN_IF_ERROR(CheckShape("moved", *tensor, TensorShape()));
  *moved = *Data<const bool>(*tensor);
  return absl::OkStatus();
}

absl::Status FindStepNumbers(OpKernelContext* context, StepNumbers* numbers,
                             int decays) {
  const Tensor *values, *number;
  TF_RETURN_IF_ERROR(context->input("hyperparameters", &values));
  TF_RETURN_IF_ERROR(context->input("seed", &number));
  const bool has_decays = values->shape() == TensorShape({4 + decays});
  if (!has_decays && values->shape() != TensorShape({4})) {
    return InvalidArgument("hyperparameters must have the shape [4], or [",
                           4 + decays, "] with weight decay, but have ",
                           values->shape().DebugString());
  }
  if (number->dims() != 0) {
    return InvalidArgument("seed must be a scalar, but has the shape " +
                           number->shape().DebugString());
  }
  static_assert(sizeof(Hyperparameters) == 4 * sizeof(double), "in this order");
  numbers->hyper =
      reinterpret_cast<const Hyperparameters*>(Data<double>(*values));
  numbers->decays = has_decays ? Data<double>(*values) + 4 : nullptr;
  numbers->seed = reinterpret_cast<const uint64_t*>(Data<int64_t>(*number));
  return absl::OkStatus();
}

}  // namespace tf_hsm
