// Top-k, sampling and the log-probabilities of given classes, on the CPU, for
// tensors and for variables.

#include <vector>

#include "cc/core/api/class_log_probs.h"
#include "cc/core/api/sample.h"
#include "cc/core/api/search.h"
#include "cc/kernels/cpu/descent_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
class TopKOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using Inputs = DescentInputs<T>;
  using A = typename Inputs::A;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    TopKInputs arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, in.arguments));
    const int64_t k = arguments.k;
    const TensorShape& batch_shape = in.arguments.batch_shape;
    Tensor *log_probs, *classes, *pruned, *best;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, arguments.shape, &log_probs));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, arguments.shape, &classes));
    OP_REQUIRES_OK(context, context->allocate_output(2, batch_shape, &pruned));
    OP_REQUIRES_OK(context, context->allocate_output(3, batch_shape, &best));
    SearchOptions options;
    options.max_classes = k;
    options.beam_width = arguments.beam_width;
    A* values = Inputs::template Data<A>(*log_probs);
    int64_t* ids = Inputs::template Data<int64_t>(*classes);
    int64_t* counts = Inputs::template Data<int64_t>(*pruned);
    int64_t* firsts = Inputs::template Data<int64_t>(*best);
    auto found = [&](int64_t example, const SearchResult<A>& result) {
      for (int64_t i = 0; i < result.num_classes; ++i) {
        values[example * k + i] = result.classes[i].log_prob;
        ids[example * k + i] = result.classes[i].id;
      }
      counts[example] = result.num_pruned;
      // A search that ends without a class is an error later.
      firsts[example] = result.num_classes > 0 ? result.classes[0].id : -1;
    };
    OP_REQUIRES_OK(context, Run([&] {
                     return FindBestClasses(in.descent, options, found);
                   }));
  }
};

template <typename T>
class SampleOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using Inputs = DescentInputs<T>;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    SampleInputs arguments;
    OP_REQUIRES_OK(context, arguments.Read(context, in.arguments));
    Tensor* classes;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, arguments.shape, &classes));
    OP_REQUIRES_OK(context, Run([&] {
                     return Sample(in.descent, arguments.options,
                                   Inputs::template Data<int64_t>(*classes));
                   }));
  }
};

template <typename T>
class ClassLogProbsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using Inputs = DescentInputs<T>;
  using A = typename Inputs::A;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    ClassInputs arguments;
    OP_REQUIRES_OK(context,
                   arguments.Read(context, in.arguments, &in.descent.tree));
    const Tensor& classes = *arguments.classes;
    std::vector<int64_t> ids;
    Tensor* log_probs;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, classes.shape(), &log_probs));
    OP_REQUIRES_OK(context, Run([&] {
                     CopyIntegers(classes, &ids);
                     return ClassLogProbs(in.descent, ids.data(),
                                          arguments.count,
                                          Inputs::template Data<A>(*log_probs));
                   }));
  }
};

TF_HSM_REGISTER_INFERENCE("TfHsmTopK", TopKOp);
TF_HSM_REGISTER_INFERENCE("TfHsmSample", SampleOp);
TF_HSM_REGISTER_INFERENCE("TfHsmClassLogProbs", ClassLogProbsOp);

}  // namespace
}  // namespace tf_hsm
