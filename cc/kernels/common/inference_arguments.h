// The arguments of the ops that go down a tree, read and checked, on any
// device.

#ifndef TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_

#include <cstdint>

#include "cc/core/api/class_mask.h"
#include "cc/core/api/sample.h"
#include "cc/core/base/quantized_rows.h"
#include "cc/core/tree/tree_view.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

// What all of them begin with: the op's inputs `weights`, `biases`, `inputs`,
// `group_offsets`, `row_below`, `root_groups`, `root_log_probs` and `scales`,
// of shapes that are checked against each other. Only the values of root_groups
// are checked. Variables are locked as long as this lives.
struct InferenceArguments {
  // The element type of the parameters is `dtype`.
  absl::Status Read(OpKernelContext* context, const TreeAttributes& attributes,
                    DataType dtype);

  Parameters parameters;
  QuantizedRows quantized;  // the weights, if there are scales
  TreeView tree;
  const Tensor* inputs = nullptr;
  const Tensor* root_log_probs = nullptr;  // [..., roots], or null
  TensorShape batch_shape;
  int64_t num_examples = 0;
  int64_t width = 0;
};

// Whether each row has a sigmoid of its own, as in a label tree, which cannot
// be pinned. On a GPU that is an error.
struct SigmoidAttributes : TreeAttributes {
  absl::Status Read(OpKernelConstruction* context);

  bool has_sigmoids = false;
};

// The op's inputs `k`, `beam_width`, `bounds`, `row_spans`, `allowed_ranks` and
// `allowed_splits`; the shape of what is found.
struct TopKInputs {
  absl::Status Read(OpKernelContext* context, const InferenceArguments& in);

  int64_t k = 0;
  int64_t beam_width = 0;          // 0: exact
  const Tensor* bounds = nullptr;  // [...], or null
  ClassMask mask;                  // if has_mask; else all classes are allowed
  bool has_mask = false;
  TensorShape shape;

 private:
  absl::Status ReadMask(OpKernelContext* context, const InferenceArguments& in);
};

// The op's outputs, of accumulators of type A.
template <typename A>
struct TopKOutputs {
  absl::Status Allocate(OpKernelContext* context, const InferenceArguments& in,
                        const TopKInputs& wanted) {
    Tensor* outputs[4];
    for (int i = 0; i < 4; ++i) {
      TF_RETURN_IF_ERROR(context->allocate_output(
          i, i < 2 ? wanted.shape : in.batch_shape, &outputs[i]));
    }
    log_probs = Data<A>(*outputs[0]);
    classes = Data<int64_t>(*outputs[1]);
    num_pruned = Data<int64_t>(*outputs[2]);
    best_class = Data<int64_t>(*outputs[3]);
    return absl::OkStatus();
  }

  A* log_probs;         // [..., k]
  int64_t* classes;     // [..., k]
  int64_t* num_pruned;  // [...]
  int64_t* best_class;  // [...]
};

// The op's inputs `num_samples`, `seed`, `temperature`, `top_k` and `top_p`;
// the shape of the draws.
struct SampleInputs {
  absl::Status Read(OpKernelContext* context, const InferenceArguments& in);

  SampleOptions options;
  TensorShape shape;
};

// The op's input `classes`, [..., count], of the batch's shape but for `count`;
// and those that a walk up `tree` needs.
struct ClassInputs {
  absl::Status Read(OpKernelContext* context, const InferenceArguments& in,
                    TreeView* tree);

  const Tensor* classes = nullptr;
  int64_t count = 0;
};

// The op's inputs `labels`, of the batch's shape, and `k`; and the arrays that
// a walk up `tree` needs.
struct LabelRanksInputs {
  absl::Status Read(OpKernelContext* context, const InferenceArguments& in,
                    TreeView* tree);

  const Tensor* labels = nullptr;
  int64_t k = 0;
};

// Whether the log-probabilities are those of all nodes, or of all classes.
struct LogProbsAttributes : TreeAttributes {
  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(TreeAttributes::Read(context));
    return context->GetAttr("of_nodes", &of_nodes);
  }

  bool of_nodes = false;
};

// The shapes of what the log-probabilities' op and its gradient hand to each
// other.
struct LogProbsShapes {
  absl::Status Make(const InferenceArguments& in,
                    const LogProbsAttributes& attributes);

  // Finds the op's inputs `grads`, `log_probs` and `group_log_probs`.
  absl::Status ReadGradInputs(OpKernelContext* context, const Tensor** grads,
                              const Tensor** values,
                              const Tensor** groups) const;

  TensorShape log_probs;
  TensorShape groups;
  TensorShape logits;
  TensorShape roots;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_INFERENCE_ARGUMENTS_H_
