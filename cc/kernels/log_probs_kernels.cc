// The log-probabilities of all classes or nodes, and their gradient, on the
// CPU, for tensors and for variables.

#include <vector>

#include "cc/core/log_probs.h"
#include "cc/kernels/descent_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The shapes of what the two ops hand to each other.
struct Shapes {
  TensorShape log_probs;
  TensorShape groups;
  TensorShape logits;

  absl::Status Make(const TensorShape& batch, const TreeView& tree,
                    bool of_nodes) {
    TF_RETURN_IF_ERROR(
        Append(batch, of_nodes ? tree.num_rows : tree.num_classes, &log_probs));
    TF_RETURN_IF_ERROR(Append(batch, tree.num_groups, &groups));
    return Append(TensorShape({batch.num_elements()}), tree.num_rows, &logits);
  }
};

absl::Status CheckShape(const char* name, const Tensor& tensor,
                        const TensorShape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have the shape ", shape.DebugString(),
                   ", but has ", tensor.shape().DebugString()));
}

template <typename T>
class LogProbsOp : public OpKernel {
 public:
  using Inputs = DescentInputs<T>;
  using A = typename Inputs::A;

  explicit LogProbsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("of_nodes", &of_nodes_));
  }

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    const TreeView& tree = in.descent.tree;
    std::vector<int64_t> levels;
    OP_REQUIRES_OK(context, Run([&] { return FindLevels(tree, &levels); }));
    Shapes shapes;
    OP_REQUIRES_OK(context, shapes.Make(in.batch_shape, tree, of_nodes_));
    Tensor *values, *groups;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0, shapes.log_probs, &values));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, shapes.groups, &groups));
    LogProbs(in.descent, levels,
             {of_nodes_, Inputs::template Data<A>(*values),
              Inputs::template Data<A>(*groups)});
  }

 private:
  bool of_nodes_;
};

template <typename T>
class LogProbsGradOp : public OpKernel {
 public:
  using Inputs = DescentInputs<T>;
  using A = typename Inputs::A;

  explicit LogProbsGradOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("of_nodes", &of_nodes_));
  }

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    const TreeView& tree = in.descent.tree;
    std::vector<int64_t> levels;
    OP_REQUIRES_OK(context, Run([&] { return FindLevels(tree, &levels); }));
    const Tensor *grads, *values, *groups;
    OP_REQUIRES_OK(context, context->input("grads", &grads));
    OP_REQUIRES_OK(context, context->input("log_probs", &values));
    OP_REQUIRES_OK(context, context->input("group_log_probs", &groups));
    Shapes shapes;
    OP_REQUIRES_OK(context, shapes.Make(in.batch_shape, tree, of_nodes_));
    OP_REQUIRES_OK(context, CheckShape("grads", *grads, shapes.log_probs));
    OP_REQUIRES_OK(context, CheckShape("log_probs", *values, shapes.log_probs));
    OP_REQUIRES_OK(context,
                   CheckShape("group_log_probs", *groups, shapes.groups));
    Tensor *dx, *dz;
    OP_REQUIRES_OK(context,
                   AllocateOutput(context, 0, in.inputs->shape(), &dx));
    OP_REQUIRES_OK(context, AllocateOutput(context, 1, shapes.logits, &dz));
    OP_REQUIRES_OK(context, Run([&] {
                     LogProbsGrad(
                         in.descent, levels,
                         {of_nodes_, Inputs::template Data<const A>(*values),
                          Inputs::template Data<const A>(*groups)},
                         Inputs::template Data<const A>(*grads),
                         Inputs::template Data<A>(*dz),
                         Inputs::template Data<A>(*dx));
                     return std::string();
                   }));
  }

 private:
  bool of_nodes_;
};

TF_HSM_REGISTER_INFERENCE("TfHsmLogProbs", LogProbsOp);
TF_HSM_REGISTER_INFERENCE("TfHsmLogProbsGrad", LogProbsGradOp);

}  // namespace
}  // namespace tf_hsm
