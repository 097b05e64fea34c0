// What the step of an optimizer on some rows of a variable reads, on any
// device.

#ifndef TF_HSM_CC_KERNELS_COMMON_SPARSE_UPDATE_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_SPARSE_UPDATE_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/update/update.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/common/variable_locks.h"

namespace tf_hsm {

struct SparseUpdateAttributes : StepAttributes<OpAttributes> {
  absl::Status Read(OpKernelConstruction* context);
};

struct SparseUpdateArguments {
  // Finds, locks and checks the variables, and checks the shapes of the rest.
  absl::Status Read(OpKernelContext* context,
                    const SparseUpdateAttributes& attributes, DataType dtype,
                    DataType slot_dtype);

  // Points `update` at the variables; T is the core's element type.
  template <typename T>
  void SetParameters(const SparseUpdateAttributes& attributes,
                     UpdatedParameters<T>* update) const {
    update->rule = attributes.rule;
    update->stochastic = attributes.stochastic_rounding;
    update->weights = Data<T>(*weights);
    PointAtSlots(slots, update->weight_slots);
  }

  Tensor* weights = nullptr;  // [rows, ...]
  std::vector<Tensor*> slots;
  const Tensor* indices = nullptr;  // [count]
  const Tensor* values = nullptr;   // [count, ...]
  int64_t count = 0;
  int64_t width = 0;  // of a row; 0 without values
  // In the memory where the op has them; `decays` has one number, or is null.
  StepNumbers numbers;

 private:
  VariableLocks locks_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_SPARSE_UPDATE_ARGUMENTS_H_
