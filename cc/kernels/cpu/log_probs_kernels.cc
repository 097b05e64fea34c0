// The log-probabilities of all classes or nodes, and their gradient, on the
// CPU, for tensors and for variables.

#include <vector>

#include "cc/core/api/log_probs.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/cpu/inference_batch.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {
namespace {

// What both ops begin with.
template <typename T>
struct LogProbsBatch : InferenceBatch<T> {
  absl::Status Read(OpKernelContext* context,
                    const LogProbsAttributes& attributes) {
    TF_RETURN_IF_ERROR(InferenceBatch<T>::Read(context, attributes));
    TF_RETURN_IF_ERROR(StatusOf(FindLevels(this->scorer.tree, &levels)));
    return shapes.Make(this->arguments, attributes);
  }

  std::vector<int64_t> levels;
  LogProbsShapes shapes;
};

template <typename T>
struct LogProbsOp : LogProbsAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LogProbsBatch<T> in;
    Tensor *values, *groups;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, 0, in.shapes.log_probs, &values));
    TF_RETURN_IF_ERROR(AllocateOutput(context, 1, in.shapes.groups, &groups));
    LogProbs(in.scorer, in.levels,
             {of_nodes, Data<A>(*values), Data<A>(*groups)});
    return absl::OkStatus();
  }
};

template <typename T>
struct LogProbsGradOp : LogProbsAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LogProbsBatch<T> in;
    const Tensor *grads, *values, *groups;
    Tensor *dx, *dz, *root_grads;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    if (in.scorer.quantized.codes != nullptr) {
      return absl::UnimplementedError("quantized weights have no gradient");
    }
    TF_RETURN_IF_ERROR(
        in.shapes.ReadGradInputs(context, &grads, &values, &groups));
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, 0, in.arguments.inputs->shape(), &dx));
    TF_RETURN_IF_ERROR(AllocateOutput(context, 1, in.shapes.logits, &dz));
    TF_RETURN_IF_ERROR(
        context->allocate_output(2, in.shapes.roots, &root_grads));
    LogProbsGrad(in.scorer, in.levels,
                 {of_nodes, Data<const A>(*values), Data<const A>(*groups)},
                 Data<const A>(*grads), Data<A>(*dz), Data<A>(*dx),
                 Data<A>(*root_grads));
    return absl::OkStatus();
  }
};

const KernelRegistration<LogProbsOp> log_probs(kCpu, "TfHsmLogProbs");
const KernelRegistration<LogProbsGradOp> log_probs_grad(kCpu,
                                                        "TfHsmLogProbsGrad");

}  // namespace
}  // namespace tf_hsm
