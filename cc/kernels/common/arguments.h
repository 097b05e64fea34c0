// The arguments of the ops, read and checked: nothing below this layer sees a
// tensor whose shape does not fit the others.

#ifndef TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/types.h"
#include "cc/core/tree/tree_view.h"
#include "cc/kernels/common/parameters.h"
#include "tensorflow/core/framework/op_kernel.h"

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

// Finds the op's input `inputs`, [..., width] of the weights' width.
absl::Status ReadInputs(tensorflow::OpKernelContext* context, int64_t width,
                        const tensorflow::Tensor** inputs);

// Reads the arrays of a tree of `rows` rows that a walk down needs, the op's
// inputs `group_offsets` and `row_below`.
absl::Status ReadTreeBelow(tensorflow::OpKernelContext* context, int64_t rows,
                           TreeView* tree);

// Adds those that a walk up needs: `group_parents`, `class_rows`, `row_groups`.
absl::Status ReadTreeAbove(tensorflow::OpKernelContext* context,
                           TreeView* tree);

// Integers of either type.
void CopyIntegers(const tensorflow::Tensor& tensor,
                  std::vector<int64_t>* values);

// The values of the op's input `indices`, each in [0, rows).
absl::Status ReadIndices(const tensorflow::Tensor& tensor, int64_t rows,
                         std::vector<int64_t>* indices);

// Labels, inputs and the tree's arrays, of shapes that are checked against each
// other and against the parameters. No value is looked at.
struct Arguments {
  TreeView tree;
  const tensorflow::Tensor* labels = nullptr;
  const tensorflow::Tensor* inputs = nullptr;   // where they are given,
  const tensorflow::Tensor* indices = nullptr;  // or of the vectors that are
  tensorflow::TensorShape batch_shape;
  int64_t width = 0;

  absl::Status Read(tensorflow::OpKernelContext* context,
                    const Parameters& parameters);

  // Finds the op's input `loss_grads`, of the labels' shape.
  absl::Status ReadLossGrads(tensorflow::OpKernelContext* context,
                             const tensorflow::Tensor** loss_grads) const;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_ARGUMENTS_H_
