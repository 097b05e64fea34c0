// The log-probabilities of all classes or nodes, and their gradient, on the
// CPU, for tensors and for variables.

#include <vector>

#include "cc/core/api/log_probs.h"
#include "cc/kernels/cpu/descent_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

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
    LogProbsShapes shapes;
    OP_REQUIRES_OK(context, shapes.Make(in.arguments, of_nodes_));
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
    LogProbsShapes shapes;
    OP_REQUIRES_OK(context, shapes.Make(in.arguments, of_nodes_));
    OP_REQUIRES_OK(context,
                   shapes.ReadGradInputs(context, &grads, &values, &groups));
    Tensor *dx, *dz;
    OP_REQUIRES_OK(
        context, AllocateOutput(context, 0, in.arguments.inputs->shape(), &dx));
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
