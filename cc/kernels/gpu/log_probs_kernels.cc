// The log-probabilities of all classes or nodes, their gradient, and those of
// given classes, on a GPU, for tensors and for variables.
//
// A class out of range gives NaN: to raise, the host would have to wait for the
// device.

#include "cc/cuda/api/inference.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/inference_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm::gpu {
namespace {

template <typename T>
struct LogProbsOp : LogProbsAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    LogProbsShapes shapes;
    Tensor *values, *groups;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TF_RETURN_IF_ERROR(shapes.Make(in.arguments, *this));
    TF_RETURN_IF_ERROR(context->allocate_output(0, shapes.log_probs, &values));
    TF_RETURN_IF_ERROR(context->allocate_output(1, shapes.groups, &groups));
    TF_RETURN_IF_ERROR(in.AllocateChunk(context, [&](int64_t chunk) {
      return LogProbsBytes(in.batch, of_nodes, chunk);
    }));
    return StatusOf(LogProbs<T>(in.batch, in.levels(), in.chunk,
                                {of_nodes, Data<A>(*values), Data<A>(*groups)},
                                in.scratch.data(), StreamOf(context)));
  }
};

template <typename T>
struct LogProbsGradOp : LogProbsAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    LogProbsShapes shapes;
    const Tensor *grads, *values, *groups;
    Tensor *dx, *dz, *root_grads;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TF_RETURN_IF_ERROR(shapes.Make(in.arguments, *this));
    TF_RETURN_IF_ERROR(
        shapes.ReadGradInputs(context, &grads, &values, &groups));
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, in.arguments.inputs->shape(), &dx));
    TF_RETURN_IF_ERROR(context->allocate_output(1, shapes.logits, &dz));
    TF_RETURN_IF_ERROR(context->allocate_output(2, shapes.roots, &root_grads));
    TF_RETURN_IF_ERROR(
        in.scratch.Allocate(context, LogProbsGradBytes(in.batch)));
    return StatusOf(LogProbsGrad<T>(
        in.batch, in.levels(),
        {of_nodes, Data<const A>(*values), Data<const A>(*groups)},
        Data<const A>(*grads),
        {Data<A>(*dz), Data<A>(*dx), Data<A>(*root_grads)}, in.scratch.data(),
        StreamOf(context)));
  }
};

template <typename T>
struct ClassLogProbsOp : SigmoidAttributes {
  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    ClassInputs wanted;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TreeView unused = in.arguments.tree;  // see device_tree.h
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments, &unused));
    if (unused.num_classes != in.arguments.tree.num_classes) {
      return Unimplemented(
          "class_rows: labels are rows on the CPU only; keep the weights "
          "there");
    }
    if (wanted.count > kMaxRepeated / in.batch.width) {
      return InvalidArgument("classes must be at most ",
                             kMaxRepeated / in.batch.width,
                             " of each input on a GPU, but are ", wanted.count);
    }
    const Tensor& classes = *wanted.classes;
    Tensor* log_probs;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, classes.shape(), &log_probs));
    in.batch.has_sigmoids = has_sigmoids;
    in.batch.labels = classes.data();
    in.batch.labels_are_int64 = classes.dtype() == tensorflow::DT_INT64;
    TF_RETURN_IF_ERROR(in.AllocateChunk(context, [&](int64_t chunk) {
      return ClassLogProbsBytes(in.batch, wanted.count, chunk);
    }));
    return StatusOf(ClassLogProbs<T>(in.batch, in.levels(), wanted.count,
                                     in.chunk, Data<Accumulator<T>>(*log_probs),
                                     in.scratch.data(), StreamOf(context)));
  }

  // The most numbers of an input, once for each of its classes.
  static constexpr int64_t kMaxRepeated = int64_t{1} << 36;
};

const KernelRegistration<LogProbsOp> log_probs(kGpu, "TfHsmLogProbs",
                                               InferenceHostMemory());
const KernelRegistration<LogProbsGradOp> log_probs_grad(kGpu,
                                                        "TfHsmLogProbsGrad",
                                                        InferenceHostMemory());
const KernelRegistration<ClassLogProbsOp> class_log_probs(
    kGpu, "TfHsmClassLogProbs",
    InferenceHostMemory({"group_parents", "class_rows", "row_groups"}));

}  // namespace
}  // namespace tf_hsm::gpu
