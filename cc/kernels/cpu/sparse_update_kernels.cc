// The step of an optimizer on some rows of a variable, on the CPU.

#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/common/variable_locks.h"
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

absl::Status CheckShape(const std::string& name, const Tensor& tensor,
                        const TensorShape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have the shape ", shape.DebugString(),
                   ", but has ", tensor.shape().DebugString()));
}

template <typename T>
class SparseUpdateOp : public OpKernel {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  explicit SparseUpdateOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string rule;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, RuleOf(rule, &rule_));
    int num_slots;
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots));
    OP_REQUIRES(context, num_slots == NumSlots(rule_),
                absl::InvalidArgumentError(
                    absl::StrCat("slots must be ", NumSlots(rule_), " for ",
                                 rule, ", but are ", num_slots)));
  }

  void Compute(OpKernelContext* context) override {
    VariableLocks locks;
    const Tensor* weights;
    Update<Core> update;
    SparseGradient<Core> gradient;
    std::vector<KeyAndIndex> rows;
    OP_REQUIRES_OK(context, ReadUpdate(context, &locks, &weights, &update));
    OP_REQUIRES_OK(context,
                   ReadGradient(context, weights->shape(), &rows, &gradient));
    try {
      SparseUpdate<Core>(update, gradient, PoolParallel(context));
    } catch (const std::bad_alloc&) {
      context->CtxFailure(absl::ResourceExhaustedError(
          "no memory for the scratch of an update, which may be half done"));
    }
  }

 private:
  // Finds, locks and checks the variables.
  absl::Status ReadUpdate(OpKernelContext* context, VariableLocks* locks,
                          const Tensor** weights, Update<Core>* update) const {
    const int num_slots = NumSlots(rule_);
    tensorflow::Var *variable, *slots[2];
    TF_RETURN_IF_ERROR(locks->Find(context, 0, "weights", &variable));
    for (int s = 0; s < num_slots; ++s) {
      TF_RETURN_IF_ERROR(locks->Find(context, 1 + s, SlotName(s), &slots[s]));
    }
    TF_RETURN_IF_ERROR(locks->LockExclusive());
    *weights = variable->tensor();
    TF_RETURN_IF_ERROR(
        CheckType("weights", **weights, DataTypeToEnum<T>::value));
    const TensorShape shape = (*weights)->shape();
    if (shape.dims() == 0) {
      return absl::InvalidArgumentError(
          "weights must have the shape [rows, ...], but are a scalar");
    }
    const bool of_rows = rule_ == UpdateRule::kRowwiseAdagrad;
    for (int s = 0; s < num_slots; ++s) {
      const Tensor& slot = *slots[s]->tensor();
      TF_RETURN_IF_ERROR(
          CheckType(SlotName(s), slot, DataTypeToEnum<A>::value));
      TF_RETURN_IF_ERROR(
          CheckShape(SlotName(s), slot,
                     of_rows ? TensorShape({shape.dim_size(0)}) : shape));
    }
    const Tensor* hyper;
    TF_RETURN_IF_ERROR(context->input("hyperparameters", &hyper));
    TF_RETURN_IF_ERROR(CheckShape("hyperparameters", *hyper, TensorShape({4})));
    TF_RETURN_IF_ERROR(locks->Unshare(context));
    const double* values = static_cast<const double*>(hyper->data());
    update->rule = rule_;
    update->hyper = {values[0], values[1], values[2], values[3]};
    update->weights = static_cast<Core*>((*weights)->data());
    for (int s = 0; s < num_slots; ++s) {
      update->weight_slots[s] = static_cast<A*>(slots[s]->tensor()->data());
    }
    return absl::OkStatus();
  }

  static std::string SlotName(int s) { return absl::StrCat("slots[", s, "]"); }

  // Of weights of this shape; what it refers to is kept in `rows`.
  absl::Status ReadGradient(OpKernelContext* context, const TensorShape& shape,
                            std::vector<KeyAndIndex>* rows,
                            SparseGradient<Core>* gradient) const {
    const Tensor *indices, *values;
    TF_RETURN_IF_ERROR(context->input("indices", &indices));
    TF_RETURN_IF_ERROR(context->input("values", &values));
    if (indices->dims() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("indices must have the shape [count], but have ",
                       indices->shape().DebugString()));
    }
    const int64_t count = indices->NumElements();
    TensorShape expected = shape;
    TF_RETURN_IF_ERROR(expected.SetDimWithStatus(0, count));
    TF_RETURN_IF_ERROR(CheckShape("values", *values, expected));
    try {
      std::vector<int64_t> row_of;
      TF_RETURN_IF_ERROR(ReadIndices(*indices, shape.dim_size(0), &row_of));
      *rows = SortRows(row_of.data(), count);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory to sort the indices");
    }
    gradient->rows = rows->data();
    gradient->values = static_cast<const A*>(values->data());
    gradient->count = count;
    gradient->width = count == 0 ? 0 : values->NumElements() / count;
    return absl::OkStatus();
  }

  UpdateRule rule_ = UpdateRule::kSgd;
};

#define TF_HSM_REGISTER(T)                                                 \
  REGISTER_KERNEL_BUILDER(                                                 \
      Name("ResourceTfHsmSparseUpdate")                                    \
          .Device(tensorflow::DEVICE_CPU)                                  \
          .TypeConstraint<T>("T")                                          \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator"), \
      SparseUpdateOp<T>)
TF_HSM_REGISTER(float);
TF_HSM_REGISTER(double);
TF_HSM_REGISTER(Eigen::bfloat16);
TF_HSM_REGISTER(Eigen::half);
#undef TF_HSM_REGISTER

}  // namespace
}  // namespace tf_hsm
