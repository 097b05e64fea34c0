#include "cc/kernels/common/parameters.h"

#include "absl/strings/str_cat.h"
#include "cc/kernels/common/arguments.h"

namespace tf_hsm {

using tensorflow::Var;

absl::Status FindSlots(OpKernelContext* context, const std::string& list,
                       int num_slots, VariableLocks* locks,
                       std::vector<Tensor*>* slots) {
  int first, past;
  TF_RETURN_IF_ERROR(context->op_kernel().InputRange(list, &first, &past));
  if (past - first != num_slots) {
    return InvalidArgument(list, " must be ", num_slots,
                           " for this rule, but are ", past - first);
  }
  for (int i = 0; i < num_slots; ++i) {
    Var* variable;
    TF_RETURN_IF_ERROR(locks->Find(context, first + i,
                                   absl::StrCat(list, "[", i, "]"), &variable));
    slots->push_back(variable->tensor());
  }
  return absl::OkStatus();
}

absl::Status CheckSlots(const std::string& list,
                        const std::vector<Tensor*>& slots, DataType dtype,
                        UpdateRule rule, const TensorShape& shape) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::string name = absl::StrCat(list, "[", i, "]");
    TF_RETURN_IF_ERROR(CheckType(name, *slots[i], dtype));
    TF_RETURN_IF_ERROR(CheckShape(name, *slots[i],
                                  TraitsOf(rule).slots_per_row
                                      ? TensorShape({shape.dim_size(0)})
                                      : shape));
  }
  return absl::OkStatus();
}

absl::Status Parameters::Find(OpKernelContext* context, bool variables_only) {
  int of_biases;
  TF_RETURN_IF_ERROR(FindInput(context, "biases", &of_biases));
  auto find = [&](int input, const char* name, const Tensor** tensor) {
    return FindOne(context, input, name, variables_only, tensor);
  };
  TF_RETURN_IF_ERROR(find(0, "weights", &weights_));
  return of_biases < 0 ? absl::OkStatus() : find(of_biases, "biases", &biases_);
}

absl::Status Parameters::FindOne(OpKernelContext* context, int input,
                                 const char* name, bool variables_only,
                                 const Tensor** tensor) {
  if (context->input_dtype(input) == tensorflow::DT_RESOURCE) {
    Var* variable;
    TF_RETURN_IF_ERROR(locks_.Find(context, input, name, &variable));
    *tensor = variable->tensor();
  } else if (variables_only) {
    return InvalidArgument(name, " must be a variable's handle");
  } else {
    *tensor = &context->input(input);
  }
  return absl::OkStatus();
}

absl::Status Parameters::Check(DataType dtype) const {
  const struct {
    const char* name;
    const Tensor* tensor;
    int rank;
  } checks[] = {{"weights", weights_, 2},
                {"biases", biases_, 1},
                {"vectors", vectors_, 2}};
  for (const auto& check : checks) {
    if (check.tensor == nullptr) continue;
    if (check.tensor != weights_ || scales_ == nullptr) {
      TF_RETURN_IF_ERROR(CheckType(check.name, *check.tensor, dtype));
    }
    if (check.tensor->dims() != check.rank) {
      return InvalidArgument(check.name, " must have the shape ",
                             check.rank == 2 ? "[rows, width]" : "[rows]",
                             ", but has ", check.tensor->shape().DebugString());
    }
  }
  if (biases_ != nullptr && biases_->dim_size(0) != weights_->dim_size(0)) {
    return InvalidArgument("biases must have one value for each of the ",
                           weights_->dim_size(0),
                           " rows of weights, but have the shape ",
                           biases_->shape().DebugString());
  }
  if (vectors_ != nullptr && vectors_->dim_size(1) != weights_->dim_size(1)) {
    return InvalidArgument("vectors must have the width of weights, ",
                           weights_->dim_size(1), ", but have the shape ",
                           vectors_->shape().DebugString());
  }
  return absl::OkStatus();
}

absl::Status Parameters::Read(OpKernelContext* context, DataType dtype) {
  TF_RETURN_IF_ERROR(Find(context, /*variables_only=*/false));
  locks_.LockShared();
  return Check(dtype);
}

absl::Status Parameters::ReadWithScales(OpKernelContext* context,
                                        DataType dtype) {
  int first, past;
  TF_RETURN_IF_ERROR(context->op_kernel().InputRange("scales", &first, &past));
  if (past == first) return Read(context, dtype);
  if (past - first > 1 || dtype != tensorflow::DT_FLOAT) {
    return InvalidArgument(
        "scales must be one matrix at most, for float32 inputs and biases");
  }
  TF_RETURN_IF_ERROR(Find(context, /*variables_only=*/false));
  TF_RETURN_IF_ERROR(FindOne(context, first, "scales",
                             /*variables_only=*/false, &scales_));
  locks_.LockShared();
  const DataType codes = weights_->dtype();
  if (codes != tensorflow::DT_INT8 && codes != tensorflow::DT_UINT8) {
    return InvalidArgument(
        "weights with scales must be int8 or uint8, but are ",
        tensorflow::DataTypeString(codes));
  }
  TF_RETURN_IF_ERROR(CheckType("scales", *scales_, tensorflow::DT_FLOAT));
  TF_RETURN_IF_ERROR(Check(dtype));
  if (scales_->dims() == 2 && scales_->dim_size(0) == weights_->dim_size(0)) {
    return absl::OkStatus();
  }
  return InvalidArgument("scales must have the shape [", weights_->dim_size(0),
                         ", blocks], a row for each row of weights, but have ",
                         scales_->shape().DebugString());
}

absl::Status Parameters::Write(OpKernelContext* context, DataType dtype,
                               DataType slot_dtype, UpdateRule rule,
                               bool with_vectors) {
  const int num_slots = NumSlots(rule);
  TF_RETURN_IF_ERROR(Find(context, /*variables_only=*/true));
  TF_RETURN_IF_ERROR(
      FindSlots(context, "weight_slots", num_slots, &locks_, &weight_slots_));
  TF_RETURN_IF_ERROR(FindSlots(context, "bias_slots",
                               biases_ == nullptr ? 0 : num_slots, &locks_,
                               &bias_slots_));
  if (with_vectors) {
    int of_vectors;
    Var* variable;
    TF_RETURN_IF_ERROR(FindInput(context, "vectors", &of_vectors));
    TF_RETURN_IF_ERROR(locks_.Find(context, of_vectors, "vectors", &variable));
    vectors_ = variable->tensor();
    TF_RETURN_IF_ERROR(
        FindSlots(context, "vector_slots", num_slots, &locks_, &vector_slots_));
  }
  TF_RETURN_IF_ERROR(locks_.LockExclusive());
  TF_RETURN_IF_ERROR(Check(dtype));
  TF_RETURN_IF_ERROR(CheckSlots("weight_slots", weight_slots_, slot_dtype, rule,
                                weights_->shape()));
  // Biases have a number per row: so have their slots, whatever the rule.
  TF_RETURN_IF_ERROR(CheckSlots("bias_slots", bias_slots_, slot_dtype, rule,
                                TensorShape({weights_->dim_size(0)})));
  if (with_vectors) {
    TF_RETURN_IF_ERROR(CheckSlots("vector_slots", vector_slots_, slot_dtype,
                                  rule, vectors_->shape()));
  }
  return locks_.Unshare(context);
}

}  // namespace tf_hsm
