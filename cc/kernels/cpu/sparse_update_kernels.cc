// The step of an optimizer on some rows of a variable, on the CPU.

#include <vector>

#include "cc/core/api/sparse_update.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/common/variable_locks.h"
#include "cc/kernels/cpu/parallel.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {
namespace {

struct SparseUpdateAttributes : StepAttributes<OpAttributes> {
  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(StepAttributes::Read(context));
    int num_slots;
    TF_RETURN_IF_ERROR(context->GetAttr("num_slots", &num_slots));
    if (num_slots == NumSlots(rule)) return absl::OkStatus();
    return InvalidArgument("slots must be ", NumSlots(rule), " for ",
                           TraitsOf(rule).name, ", but are ", num_slots);
  }
};

template <typename T>
struct SparseUpdateOp : SparseUpdateAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    VariableLocks locks;
    const Tensor* weights = nullptr;
    Update<T> update;
    SparseGradient<T> gradient;
    std::vector<KeyAndIndex> rows;
    TF_RETURN_IF_ERROR(ReadUpdate(context, &locks, &weights, &update));
    TF_RETURN_IF_ERROR(
        ReadGradient(context, weights->shape(), &rows, &gradient));
    const int64_t width = gradient.width;
    SparseUpdate<T>(update, gradient, PoolParallel(context, [width] {
                      ReserveSparseUpdate<T>(width);
                    }));
    return absl::OkStatus();
  }

  // Finds, locks and checks the variables.
  absl::Status ReadUpdate(OpKernelContext* context, VariableLocks* locks,
                          const Tensor** weights, Update<T>* update) const {
    tensorflow::Var* variable;
    std::vector<Tensor*> slots;
    TF_RETURN_IF_ERROR(locks->Find(context, 0, "weights", &variable));
    TF_RETURN_IF_ERROR(
        FindSlots(context, "slots", NumSlots(rule), locks, &slots));
    TF_RETURN_IF_ERROR(locks->LockExclusive());
    *weights = variable->tensor();
    TF_RETURN_IF_ERROR(CheckType("weights", **weights, kDataType<T>));
    if ((*weights)->dims() == 0) {
      return InvalidArgument(
          "weights must have the shape [rows, ...], but are a scalar");
    }
    TF_RETURN_IF_ERROR(
        CheckSlots("slots", slots, kDataType<A>, rule, (*weights)->shape()));
    const Tensor* hyper;
    TF_RETURN_IF_ERROR(context->input("hyperparameters", &hyper));
    const bool decays = hyper->shape() == TensorShape({5});
    if (!decays) {
      TF_RETURN_IF_ERROR(
          CheckShape("hyperparameters", *hyper, TensorShape({4})));
    }
    const Tensor* seed;
    TF_RETURN_IF_ERROR(context->input("seed", &seed));
    TF_RETURN_IF_ERROR(CheckShape("seed", *seed, TensorShape()));
    TF_RETURN_IF_ERROR(locks->Unshare(context));
    PreferHugePages(**weights);
    PreferHugePages(slots);
    const double* values = Data<double>(*hyper);
    update->rule = rule;
    update->hyper = {values[0], values[1], values[2], values[3]};
    if (decays) update->decay = values[4];
    update->stochastic = stochastic_rounding;
    update->seed = static_cast<uint64_t>(*Data<int64_t>(*seed));
    update->weights = Data<T>(**weights);
    PointAtSlots(slots, update->weight_slots);
    return absl::OkStatus();
  }

  // Reads the gradient of weights of this shape; what it refers to is kept in
  // `rows`.
  absl::Status ReadGradient(OpKernelContext* context, const TensorShape& shape,
                            std::vector<KeyAndIndex>* rows,
                            SparseGradient<T>* gradient) const {
    const Tensor *indices, *values;
    TF_RETURN_IF_ERROR(context->input("indices", &indices));
    TF_RETURN_IF_ERROR(context->input("values", &values));
    if (indices->dims() != 1) {
      return InvalidArgument("indices must have the shape [count], but have ",
                             indices->shape().DebugString());
    }
    const int64_t count = indices->NumElements();
    TensorShape expected = shape;
    TF_RETURN_IF_ERROR(expected.SetDimWithStatus(0, count));
    TF_RETURN_IF_ERROR(CheckShape("values", *values, expected));
    std::vector<int64_t> row_of;
    TF_RETURN_IF_ERROR(ReadIndices(*indices, shape.dim_size(0), &row_of));
    *rows = SortRows(row_of.data(), count);
    gradient->rows = rows->data();
    gradient->values = Data<A>(*values);
    gradient->count = count;
    gradient->width = count == 0 ? 0 : values->NumElements() / count;
    return absl::OkStatus();
  }
};

const KernelRegistration<SparseUpdateOp> sparse_update(kCpu,
                                                       "TfHsmSparseUpdate");

}  // namespace
}  // namespace tf_hsm
