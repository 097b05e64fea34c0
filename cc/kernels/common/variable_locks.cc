#include "cc/kernels/common/variable_locks.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tf_hsm {

using tensorflow::Var;

absl::Status WithoutValue(const std::string& name) {
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is a variable without a value"));
}

absl::Status CheckType(const std::string& name, const Tensor& tensor,
                       DataType dtype) {
  if (!tensor.IsInitialized()) return WithoutValue(name);
  if (tensor.dtype() == dtype) return absl::OkStatus();
  return InvalidArgument(name, " must be ", tensorflow::DataTypeString(dtype),
                         ", but is ",
                         tensorflow::DataTypeString(tensor.dtype()));
}

VariableLocks::~VariableLocks() {
  for (size_t i = 0; i < num_shared_; ++i) {
    held_[i].variable->mu()->unlock_shared();
  }
  for (size_t i = 0; i < num_exclusive_; ++i) {
    held_[i].variable->mu()->unlock();
  }
}

absl::Status VariableLocks::Find(OpKernelContext* context, int input,
                                 const std::string& name, Var** variable) {
  if (context->input(input).NumElements() != 1) {
    return InvalidArgument(name,
                           " must be one variable's handle, but has the shape ",
                           context->input(input).shape().DebugString());
  }
  Held held;
  held.name = name;
  const absl::Status found = tensorflow::LookupResource(
      context, tensorflow::HandleFromInput(context, input), &held.variable);
  if (absl::IsNotFound(found)) return WithoutValue(name);
  if (!found.ok()) {
    return absl::Status(found.code(),
                        absl::StrCat(name, ": ", found.message()));
  }
  *variable = held.variable.get();
  held_.push_back(std::move(held));
  return absl::OkStatus();
}

void VariableLocks::SortByAddress() {
  std::stable_sort(
      held_.begin(), held_.end(), [](const Held& a, const Held& b) {
        return std::less<Var*>()(a.variable.get(), b.variable.get());
      });
}

void VariableLocks::LockShared() {
  SortByAddress();
  // No lock twice: between the two another thread could ask to write.
  held_.erase(std::unique(held_.begin(), held_.end(),
                          [](const Held& a, const Held& b) {
                            return a.variable.get() == b.variable.get();
                          }),
              held_.end());
  for (const Held& held : held_) held.variable->mu()->lock_shared();
  num_shared_ = held_.size();
}

absl::Status VariableLocks::LockExclusive() {
  SortByAddress();
  for (size_t i = 1; i < held_.size(); ++i) {
    if (held_[i].variable.get() != held_[i - 1].variable.get()) continue;
    return InvalidArgument(held_[i - 1].name, " and ", held_[i].name,
                           " must be different variables, but are one");
  }
  for (const Held& held : held_) held.variable->mu()->lock();
  num_exclusive_ = held_.size();
  return absl::OkStatus();
}

absl::Status VariableLocks::Unshare(OpKernelContext* context) {
  for (const Held& held : held_) {
    Tensor* tensor = held.variable->tensor();
    if (tensor->RefCountIsOne() || tensor->NumElements() == 0) continue;
    Tensor own;
    TF_RETURN_IF_ERROR(
        context->allocate_temp(tensor->dtype(), tensor->shape(), &own));
    // On a GPU this only enqueues the copy, before what reads it.
    absl::Status copied;
    context->device()->CopyTensorInSameDevice(
        tensor, &own, context->op_device_context(),
        [&copied](const absl::Status& status) { copied = status; });
    TF_RETURN_IF_ERROR(copied);
    *tensor = own;
  }
  return absl::OkStatus();
}

}  // namespace tf_hsm
