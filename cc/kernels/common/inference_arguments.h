// The arguments of the ops that go down a tree, read and checked, on any
// device.

#ifndef TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_

#include <cstdint>

#include "cc/core/api/sample.h"
#include "cc/core/tree/tree_view.h"
#include "cc/kernels/common/parameters.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

// What all of them begin with: the op's inputs `weights`, `biases`, `inputs`,
// `group_offsets` and `row_below`, of shapes that are checked against each
// other. No value is looked at. Variables are locked as long as this lives.
struct InferenceArguments {
  // The element type of the parameters is `dtype`.
  absl::Status Read(tensorflow::OpKernelContext* context,
                    tensorflow::DataType dtype);

  Parameters parameters;
  TreeView tree;
  const tensorflow::Tensor* inputs = nullptr;
  tensorflow::TensorShape batch_shape;
  int64_t num_examples = 0;
  int64_t width = 0;
};

// The op's inputs `k` and `beam_width`; the shape of what is found.
struct TopKInputs {
  absl::Status Read(tensorflow::OpKernelContext* context,
                    const InferenceArguments& in);

  int64_t k = 0;
  int64_t beam_width = 0;  // 0: exact
  tensorflow::TensorShape shape;
};

// The op's inputs `num_samples`, `seed`, `temperature`, `top_k` and `top_p`;
// the shape of the draws.
struct SampleInputs {
  absl::Status Read(tensorflow::OpKernelContext* context,
                    const InferenceArguments& in);

  SampleOptions options;
  tensorflow::TensorShape shape;
};

// The op's input `classes`, [..., count], of the batch's shape but for `count`;
// and those that a walk up `tree` needs.
struct ClassInputs {
  absl::Status Read(tensorflow::OpKernelContext* context,
                    const InferenceArguments& in, TreeView* tree);

  const tensorflow::Tensor* classes = nullptr;
  int64_t count = 0;
};

// The shapes of what the log-probabilities' op and its gradient hand to each
// other.
struct LogProbsShapes {
  absl::Status Make(const InferenceArguments& in, bool of_nodes);

  // Finds the op's inputs `grads`, `log_probs` and `group_log_probs`.
  absl::Status ReadGradInputs(tensorflow::OpKernelContext* context,
                              const tensorflow::Tensor** grads,
                              const tensorflow::Tensor** values,
                              const tensorflow::Tensor** groups) const;

  tensorflow::TensorShape log_probs;
  tensorflow::TensorShape groups;
  tensorflow::TensorShape logits;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_
