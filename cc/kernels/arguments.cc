#include "cc/kernels/arguments.h"

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

// So that no product of it with a few thousand rows overflows.
constexpr int64_t kMaxWidth = int64_t{1} << 40;

absl::Status Vector(OpKernelContext* context, const char* name, int64_t size,
                    const std::string& why, const int64_t** data) {
  const Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->dims() != 1 || (size >= 0 && tensor->dim_size(0) != size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have the shape [", size >= 0 ? absl::StrCat(size) : "n",
        "], ", why, ", but has ", tensor->shape().DebugString()));
  }
  *data = static_cast<const int64_t*>(tensor->data());
  return absl::OkStatus();
}

absl::Status WithoutValue(const char* name) {
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is a variable without a value"));
}

template <typename Label>
void CopyLabels(const Tensor& tensor, std::vector<int64_t>* labels) {
  const Label* data = static_cast<const Label*>(tensor.data());
  labels->assign(data, data + tensor.NumElements());
}

}  // namespace

absl::Status Parameters::Find(OpKernelContext* context, int input,
                              const char* name,
                              tensorflow::core::RefCountPtr<Var>* variable,
                              const Tensor** tensor) {
  if (context->input_dtype(input) != tensorflow::DT_RESOURCE) {
    *tensor = &context->input(input);
  } else {
    if (context->input(input).NumElements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " must be one variable's handle, but has the shape ",
          context->input(input).shape().DebugString()));
    }
    const absl::Status found = tensorflow::LookupResource(
        context, tensorflow::HandleFromInput(context, input), variable);
    if (absl::IsNotFound(found)) return WithoutValue(name);
    if (!found.ok()) {
      return absl::Status(found.code(),
                          absl::StrCat(name, ": ", found.message()));
    }
    *tensor = (*variable)->tensor();
  }
  return absl::OkStatus();
}

absl::Status Parameters::Read(OpKernelContext* context,
                              tensorflow::DataType dtype) {
  int first, past;
  TF_RETURN_IF_ERROR(context->op_kernel().InputRange("biases", &first, &past));
  if (past - first > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("biases must be at most one, but are ", past - first));
  }
  TF_RETURN_IF_ERROR(
      Find(context, 0, "weights", &weights_variable_, &weights_));
  if (past > first) {
    TF_RETURN_IF_ERROR(
        Find(context, first, "biases", &biases_variable_, &biases_));
  }
  // One order for everybody, and no lock twice: else two ops could each wait
  // for the other.
  Var* variables[] = {weights_variable_.get(), biases_variable_.get()};
  if (std::less<Var*>()(variables[1], variables[0])) {
    std::swap(variables[0], variables[1]);
  }
  if (variables[1] == variables[0]) variables[1] = nullptr;
  for (int i = 0; i < 2; ++i) {
    if (variables[i] != nullptr) locks_[i].emplace(*variables[i]->mu());
  }
  const struct {
    const char* name;
    const Tensor* tensor;
    int rank;
  } checks[] = {{"weights", weights_, 2}, {"biases", biases_, 1}};
  for (const auto& check : checks) {
    if (check.tensor == nullptr) continue;
    if (!check.tensor->IsInitialized()) {
      return WithoutValue(check.name);
    }
    if (check.tensor->dtype() != dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          check.name, " must be ", tensorflow::DataTypeString(dtype),
          ", but is ", tensorflow::DataTypeString(check.tensor->dtype())));
    }
    if (check.tensor->dims() != check.rank) {
      return absl::InvalidArgumentError(
          absl::StrCat(check.name, " must have the shape ",
                       check.rank == 2 ? "[rows, width]" : "[rows]",
                       ", but has ", check.tensor->shape().DebugString()));
    }
  }
  if (biases_ != nullptr && biases_->dim_size(0) != weights_->dim_size(0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "biases must have one value for each of the ", weights_->dim_size(0),
        " rows of weights, but have the shape ",
        biases_->shape().DebugString()));
  }
  return absl::OkStatus();
}

absl::Status Arguments::Read(OpKernelContext* context,
                             const Parameters& parameters) {
  width = parameters.weights().dim_size(1);
  if (width > kMaxWidth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights must have a width of at most ", kMaxWidth, ", but have the ",
        "shape ", parameters.weights().shape().DebugString()));
  }
  const Tensor* label_tensor = nullptr;
  TF_RETURN_IF_ERROR(context->input("labels", &label_tensor));
  TF_RETURN_IF_ERROR(context->input("inputs", &inputs));
  batch_shape = label_tensor->shape();
  tensorflow::TensorShape wanted = batch_shape;
  TF_RETURN_IF_ERROR(wanted.AddDimWithStatus(width));
  if (inputs->shape() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inputs must have the shape ", wanted.DebugString(),
        ", that of labels and then the width of weights, but have ",
        inputs->shape().DebugString()));
  }
  if (label_tensor->dtype() == tensorflow::DT_INT32) {
    CopyLabels<int32_t>(*label_tensor, &labels);
  } else {
    CopyLabels<int64_t>(*label_tensor, &labels);
  }

  const Tensor* array = nullptr;
  TF_RETURN_IF_ERROR(context->input("group_parents", &array));
  tree.num_groups = array->NumElements();
  TF_RETURN_IF_ERROR(context->input("class_rows", &array));
  tree.num_classes = array->NumElements();
  tree.num_rows = parameters.weights().dim_size(0);
  TF_RETURN_IF_ERROR(Vector(context, "group_parents", -1, "one per group",
                            &tree.group_parents));
  TF_RETURN_IF_ERROR(Vector(context, "group_offsets", tree.num_groups + 1,
                            "one more than group_parents",
                            &tree.group_offsets));
  TF_RETURN_IF_ERROR(
      Vector(context, "class_rows", -1, "one per class", &tree.class_rows));
  TF_RETURN_IF_ERROR(Vector(context, "class_ranks", tree.num_classes,
                            "as class_rows", &tree.class_ranks));
  return Vector(context, "row_groups", tree.num_rows,
                "one per row of weights (the weights must be made for this "
                "tree)",
                &tree.row_groups);
}

}  // namespace tf_hsm
