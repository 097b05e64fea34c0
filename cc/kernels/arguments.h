// The arguments of the ops, read and checked: nothing below this layer sees a
// tensor whose shape does not fit the others.

#ifndef TF_HSM_CC_KERNELS_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/core/plan.h"
#include "cc/core/tree_view.h"
#include "cc/core/types.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_hsm {

// A TensorFlow element type -> the core's.
template <typename T>
struct CoreType {
  using type = T;
};
template <>
struct CoreType<Eigen::bfloat16> {
  using type = bfloat16;
};
template <>
struct CoreType<Eigen::half> {
  using type = half;
};

// Weights and biases, each a tensor or a variable. A variable is read in place
// under its shared lock, held as long as this object lives, and its buffer is
// never referenced: so no writer is made to copy it.
class Parameters {
 public:
  // Reads the op's inputs `weights` and `biases` of element type `dtype`.
  absl::Status Read(tensorflow::OpKernelContext* context,
                    tensorflow::DataType dtype);

  const tensorflow::Tensor& weights() const { return *weights_; }
  const tensorflow::Tensor* biases() const { return biases_; }  // or null

 private:
  absl::Status Find(tensorflow::OpKernelContext* context, int input,
                    const char* name,
                    tensorflow::core::RefCountPtr<tensorflow::Var>* variable,
                    const tensorflow::Tensor** tensor);

  // Declared before the locks: these are released first.
  tensorflow::core::RefCountPtr<tensorflow::Var> weights_variable_;
  tensorflow::core::RefCountPtr<tensorflow::Var> biases_variable_;
  std::optional<tensorflow::tf_shared_lock> locks_[2];
  const tensorflow::Tensor* weights_ = nullptr;
  const tensorflow::Tensor* biases_ = nullptr;
};

// Labels, inputs and the tree's arrays, checked against each other and against
// the parameters.
struct Arguments {
  TreeView tree;
  std::vector<int64_t> labels;
  const tensorflow::Tensor* inputs = nullptr;
  tensorflow::TensorShape batch_shape;
  int64_t width = 0;

  absl::Status Read(tensorflow::OpKernelContext* context,
                    const Parameters& parameters);
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_ARGUMENTS_H_
