// Weights and biases, and an optimizer's slots of them, locked and checked.

#ifndef TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_
#define TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_

#include <string>
#include <vector>

#include "cc/kernels/common/variable_locks.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

// A tensor or a variable each. Variables are locked as long as this lives.
class Parameters {
 public:
  // Reads the op's inputs `weights` and `biases` of element type `dtype`.
  absl::Status Read(tensorflow::OpKernelContext* context,
                    tensorflow::DataType dtype);

  // The same, variables all, to be written in place; and the slots, the op's
  // inputs `weight_slots` and `bias_slots`, of type `slot_dtype`: `num_slots`
  // of each, of the shape of their parameter; with `row_slots`, those of the
  // weights have one number per row. With `with_vectors` also the variable
  // `vectors`, [count, width] of the weights' width, and its `vector_slots`.
  absl::Status Write(tensorflow::OpKernelContext* context,
                     tensorflow::DataType dtype,
                     tensorflow::DataType slot_dtype, int num_slots,
                     bool row_slots, bool with_vectors = false);

  const tensorflow::Tensor& weights() const { return *weights_; }
  const tensorflow::Tensor* biases() const { return biases_; }  // or null

  const tensorflow::Tensor* vectors() const { return vectors_; }  // or null

  // What Write has found.
  const std::vector<tensorflow::Tensor*>& weight_slots() const {
    return weight_slots_;
  }
  const std::vector<tensorflow::Tensor*>& bias_slots() const {
    return bias_slots_;
  }
  const std::vector<tensorflow::Tensor*>& vector_slots() const {
    return vector_slots_;
  }

 private:
  // Finds the inputs `weights` and `biases`, without a look at their values.
  absl::Status Find(tensorflow::OpKernelContext* context, bool variables_only);
  absl::Status Check(tensorflow::DataType dtype) const;

  VariableLocks locks_;
  // Tensors of variables are read only after the lock.
  const tensorflow::Tensor* weights_ = nullptr;
  const tensorflow::Tensor* biases_ = nullptr;
  const tensorflow::Tensor* vectors_ = nullptr;
  std::vector<tensorflow::Tensor*> weight_slots_;
  std::vector<tensorflow::Tensor*> bias_slots_;
  std::vector<tensorflow::Tensor*> vector_slots_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_PARAMETERS_H_
