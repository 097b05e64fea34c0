// The arguments of the ops on a batch of labels, read and checked, on any
// device.

#ifndef TF_HSM_CC_KERNELS_COMMON_LOSS_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_LOSS_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/tree/tree_view.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

struct LossAttributes : TreeAttributes {
  std::vector<int64_t> ignored;
  float label_smoothing = 0;
  float z_loss = 0;            // see Problem
  bool takes_means = false;    // of bags
  bool with_gradients = true;  // where the op has this one

  absl::Status Read(OpKernelConstruction* context);
};

// Finds the op's input `loss_grads`, of the shape of the labels.
absl::Status ReadLossGrads(OpKernelContext* context,
                           const TensorShape& batch_shape,
                           const Tensor** loss_grads);

// Labels, inputs and the tree's arrays, of shapes that are checked against each
// other and against the parameters. No value is looked at.
struct LossArguments {
  Parameters parameters;  // read or written before Read
  TreeView tree;
  const Tensor* labels = nullptr;
  const Tensor* inputs = nullptr;         // null where the op has indices
  const Tensor* indices = nullptr;        // of parameters.vectors()
  const Tensor* splits = nullptr;         // of the indices, into bags; or null
  const Tensor* index_weights = nullptr;  // of bags; or null
  const Tensor* smoothing_prior = nullptr;  // [rows of the tree]; or null
  TensorShape batch_shape;
  int64_t num_labels = 1;  // of each example
  int64_t width = 0;

  // With `label_sets`, labels have a last dimension more: num_labels.
  absl::Status Read(OpKernelContext* context, const LossAttributes& attributes,
                    bool label_sets = false);
  absl::Status ReadIndices(OpKernelContext* context);
  // After the tree's arrays are read.
  absl::Status ReadSmoothingPrior(OpKernelContext* context,
                                  const LossAttributes& attributes);

  // The shape of the op's output number 1, the gradient by the inputs: empty
  // where nobody asks for it.
  TensorShape DxShape(OpKernelContext* context,
                      const LossAttributes& attributes) const;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_LOSS_ARGUMENTS_H_
