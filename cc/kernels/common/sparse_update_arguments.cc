#include "cc/kernels/common/sparse_update_arguments.h"

#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

absl::Status SparseUpdateAttributes::Read(OpKernelConstruction* context) {
  TF_RETURN_IF_ERROR(StepAttributes::Read(context));
  int num_slots;
  TF_RETURN_IF_ERROR(context->GetAttr("num_slots", &num_slots));
  if (num_slots == NumSlots(rule)) return absl::OkStatus();
  return InvalidArgument("slots must be ", NumSlots(rule), " for ",
                         TraitsOf(rule).name, ", but are ", num_slots);
}

absl::Status SparseUpdateArguments::Read(
    OpKernelContext* context, const SparseUpdateAttributes& attributes,
    DataType dtype, DataType slot_dtype) {
  tensorflow::Var* variable;
  TF_RETURN_IF_ERROR(locks_.Find(context, 0, "weights", &variable));
  TF_RETURN_IF_ERROR(
      FindSlots(context, "slots", NumSlots(attributes.rule), &locks_, &slots));
  TF_RETURN_IF_ERROR(locks_.LockExclusive());
  weights = variable->tensor();
  TF_RETURN_IF_ERROR(CheckType("weights", *weights, dtype));
  if (weights->dims() == 0) {
    return InvalidArgument(
        "weights must have the shape [rows, ...], but are a scalar");
  }
  TF_RETURN_IF_ERROR(CheckSlots("slots", slots, slot_dtype, attributes.rule,
                                weights->shape()));
  TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers, 1));
  TF_RETURN_IF_ERROR(locks_.Unshare(context));
  TF_RETURN_IF_ERROR(context->input("indices", &indices));
  TF_RETURN_IF_ERROR(context->input("values", &values));
  if (indices->dims() != 1) {
    return InvalidArgument("indices must have the shape [count], but have ",
                           indices->shape().DebugString());
  }
  count = indices->NumElements();
  TensorShape expected = weights->shape();
  TF_RETURN_IF_ERROR(expected.SetDimWithStatus(0, count));
  TF_RETURN_IF_ERROR(CheckShape("values", *values, expected));
  width = count == 0 ? 0 : values->NumElements() / count;
  return absl::OkStatus();
}

}  // namespace tf_hsm
