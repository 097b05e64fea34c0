// The log-probabilities of all classes or nodes, their gradient, and those of
// given classes, on a GPU, for tensors and for variables.
//
// A class out of range gives NaN: to raise, the host would have to wait for the
// device.

#include "cc/cuda/api/class_log_probs.h"
#include "cc/cuda/api/log_probs_grad.h"
#include "cc/kernels/gpu/inference_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename T>
class LogProbsOp : public OpKernel {
 public:
  using In = InferenceBatch<T>;
  using A = typename In::A;

  explicit LogProbsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("of_nodes", &of_nodes_));
  }

  void Compute(OpKernelContext* context) override {
    In in;
    LogProbsShapes shapes;
    OP_REQUIRES_OK(context, in.Read(context));
    OP_REQUIRES_OK(context, shapes.Make(in.arguments, of_nodes_));
    Tensor *values, *groups, scratch;
    void* memory;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, shapes.log_probs, &values));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, shapes.groups, &groups));
    auto bytes = [&](int64_t chunk) {
      return AllLogProbsBytes(in.batch, of_nodes_, chunk);
    };
    const int64_t chunk = in.Chunk(bytes);
    OP_REQUIRES_OK(context,
                   AllocateBytes(context, bytes(chunk), &scratch, &memory));
    OP_REQUIRES_OK(context, StatusOf(MakeAllLogProbs<typename In::Core>(
                                in.batch, in.levels(), chunk,
                                {of_nodes_, Data<A>(*values), Data<A>(*groups)},
                                memory, StreamOf(context))));
  }

 private:
  bool of_nodes_;
};

template <typename T>
class LogProbsGradOp : public OpKernel {
 public:
  using In = InferenceBatch<T>;
  using A = typename In::A;

  explicit LogProbsGradOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("of_nodes", &of_nodes_));
  }

  void Compute(OpKernelContext* context) override {
    In in;
    LogProbsShapes shapes;
    const Tensor *grads, *values, *groups;
    OP_REQUIRES_OK(context, in.Read(context));
    OP_REQUIRES_OK(context, shapes.Make(in.arguments, of_nodes_));
    OP_REQUIRES_OK(context,
                   shapes.ReadGradInputs(context, &grads, &values, &groups));
    Tensor *dx, *dz, scratch;
    void* memory;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, in.arguments.inputs->shape(), &dx));
    OP_REQUIRES_OK(context, context->allocate_output(1, shapes.logits, &dz));
    OP_REQUIRES_OK(context, AllocateBytes(context, LogProbsGradBytes(in.batch),
                                          &scratch, &memory));
    OP_REQUIRES_OK(
        context,
        StatusOf(LogProbsGrad<typename In::Core>(
            in.batch, in.levels(),
            {of_nodes_, Data<const A>(*values), Data<const A>(*groups)},
            Data<const A>(*grads), Data<A>(*dz), Data<A>(*dx), memory,
            StreamOf(context))));
  }

 private:
  bool of_nodes_;
};

template <typename T>
class ClassLogProbsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using In = InferenceBatch<T>;
  using A = typename In::A;

  void Compute(OpKernelContext* context) override {
    In in;
    ClassInputs wanted;
    OP_REQUIRES_OK(context, in.Read(context));
    TreeView unused = in.arguments.tree;  // see device_tree.h
    OP_REQUIRES_OK(context, wanted.Read(context, in.arguments, &unused));
    const Tensor& classes = *wanted.classes;
    OP_REQUIRES(context, wanted.count <= kMaxRepeated / in.batch.width,
                absl::InvalidArgumentError(absl::StrCat(
                    "classes must be at most ", kMaxRepeated / in.batch.width,
                    " of each input on a GPU, but are ", wanted.count)));
    Tensor *log_probs, scratch;
    void* memory;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, classes.shape(), &log_probs));
    in.batch.labels = classes.data();
    in.batch.labels_are_int64 = classes.dtype() == tensorflow::DT_INT64;
    auto bytes = [&](int64_t chunk) {
      return ClassLogProbsBytes(in.batch, wanted.count, chunk);
    };
    const int64_t chunk = in.Chunk(bytes);
    OP_REQUIRES_OK(context,
                   AllocateBytes(context, bytes(chunk), &scratch, &memory));
    OP_REQUIRES_OK(
        context, StatusOf(ClassLogProbs<typename In::Core>(
                     in.batch, wanted.count, chunk, Data<A>(*log_probs), memory,
                     StreamOf(context))));
  }

 private:
  // Numbers of an input, once for each of its classes.
  static constexpr int64_t kMaxRepeated = int64_t{1} << 36;
};

TF_HSM_REGISTER_INFERENCE_OPS("TfHsmLogProbs", LogProbsOp, );
TF_HSM_REGISTER_INFERENCE_OPS("TfHsmLogProbsGrad", LogProbsGradOp, );
TF_HSM_REGISTER_INFERENCE_OPS("TfHsmClassLogProbs", ClassLogProbsOp,
                              .HostMemory("group_parents")
                                  .HostMemory("class_rows")
                                  .HostMemory("row_groups"));

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
