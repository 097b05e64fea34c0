// Weights and biases, and an optimizer's slots of them, locked and checked.

#ifndef TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_
#define TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_

#include <string>
#include <vector>

#include "cc/core/update/update.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/variable_locks.h"

namespace tf_hsm {

// Finds the variables of the op's list input `list`, `num_slots` of them.
absl::Status FindSlots(OpKernelContext* context, const std::string& list,
                       int num_slots, VariableLocks* locks,
                       std::vector<Tensor*>* slots);

// Checks the slots of `rule` that belong to a parameter of shape `shape`: they
// have this shape, or one number per row.
absl::Status CheckSlots(const std::string& list,
                        const std::vector<Tensor*>& slots, DataType dtype,
                        UpdateRule rule, const TensorShape& shape);

// A tensor or a variable each. Variables are locked as long as this lives.
class Parameters {
 public:
  // Reads the op's inputs `weights` and `biases` of element type `dtype`.
  absl::Status Read(OpKernelContext* context, DataType dtype);

  // Also reads the op's list input `scales`. If it has an element, [rows,
  // blocks], the weights are codes of int8, or of two numbers in each uint8.
  absl::Status ReadWithScales(OpKernelContext* context, DataType dtype);

  // Reads them, which must be variables, to write them in place; and the slots
  // of `rule`, the op's inputs `weight_slots` and `bias_slots`, of type
  // `slot_dtype`. With `with_vectors` also the variable `vectors`,
  // [count, width] of the weights' width, and its `vector_slots`.
  absl::Status Write(OpKernelContext* context, DataType dtype,
                     DataType slot_dtype, UpdateRule rule,
                     bool with_vectors = false);

  const Tensor& weights() const { return *weights_; }
  const Tensor* biases() const { return biases_; }  // or null

  const Tensor* vectors() const { return vectors_; }  // or null
  const Tensor* scales() const { return scales_; }    // or null

  // What Write has found.
  const std::vector<Tensor*>& weight_slots() const { return weight_slots_; }
  const std::vector<Tensor*>& bias_slots() const { return bias_slots_; }
  const std::vector<Tensor*>& vector_slots() const { return vector_slots_; }

 private:
  // Finds the inputs `weights` and `biases`, without a look at their values.
  absl::Status Find(OpKernelContext* context, bool variables_only);
  // Finds one of them, the op's input number `input`.
  absl::Status FindOne(OpKernelContext* context, int input, const char* name,
                       bool variables_only, const Tensor** tensor);
  absl::Status Check(DataType dtype) const;

  VariableLocks locks_;
  // Tensors of variables are read only after the lock.
  const Tensor* weights_ = nullptr;
  const Tensor* biases_ = nullptr;
  const Tensor* vectors_ = nullptr;
  const Tensor* scales_ = nullptr;
  std::vector<Tensor*> weight_slots_;
  std::vector<Tensor*> bias_slots_;
  std::vector<Tensor*> vector_slots_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_
