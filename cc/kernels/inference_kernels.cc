// Top-k, sampling and the log-probabilities of given classes, on the CPU, for
// tensors and for variables.

#include <cmath>
#include <vector>

#include "cc/core/class_log_probs.h"
#include "cc/core/sample.h"
#include "cc/core/search.h"
#include "cc/kernels/descent_inputs.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The value of a scalar input.
template <typename S>
absl::Status ReadScalar(OpKernelContext* context, const char* name, S* value) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->NumElements() != 1 || tensor->dims() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar, but has the shape ",
                     tensor->shape().DebugString()));
  }
  *value = *static_cast<const S*>(tensor->data());
  return absl::OkStatus();
}

absl::Status CheckRange(const char* name, int64_t value, int64_t low,
                        int64_t high, const char* high_is) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " = ", value, " is outside [", low, ", ", high, "]", high_is));
}

constexpr char kHighIsClasses[] = "; the upper end is the number of classes";

template <typename T>
class TopKOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using Inputs = DescentInputs<T>;
  using A = typename Inputs::A;

  void Compute(OpKernelContext* context) override {
    Inputs in;
    OP_REQUIRES_OK(context, in.Read(context));
    int64_t k, beam_width;
    OP_REQUIRES_OK(context, ReadScalar(context, "k", &k));
    OP_REQUIRES_OK(context, ReadScalar(context, "beam_width", &beam_width));
    OP_REQUIRES_OK(context, CheckRange("k", k, 1, in.descent.tree.num_classes,
                                       kHighIsClasses));
    OP_REQUIRES(context, beam_width >= 0,
                absl::InvalidArgumentError(
                    absl::StrCat("beam_width = ", beam_width, " is below 1")));
    TensorShape shape;
    OP_REQUIRES_OK(context, Append(in.batch_shape, k, &shape));
    Tensor *log_probs, *classes, *pruned, *best;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &log_probs));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape, &classes));
    OP_REQUIRES_OK(context,
                   context->allocate_output(2, in.batch_shape, &pruned));
    OP_REQUIRES_OK(context, context->allocate_output(3, in.batch_shape, &best));
    SearchOptions options;
    options.max_classes = k;
    options.beam_width = beam_width;
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
    const int64_t num_classes = in.descent.tree.num_classes;
    SampleOptions options;
    const Tensor* seed;
    OP_REQUIRES_OK(context, context->input("seed", &seed));
    OP_REQUIRES(context, seed->shape() == TensorShape({2}),
                absl::InvalidArgumentError(
                    absl::StrCat("seed must have the shape [2], but has ",
                                 seed->shape().DebugString())));
    const int64_t* seeds = Inputs::template Data<int64_t>(*seed);
    options.seed_0 = static_cast<uint64_t>(seeds[0]);
    options.seed_1 = static_cast<uint64_t>(seeds[1]);
    OP_REQUIRES_OK(context,
                   ReadScalar(context, "num_samples", &options.num_samples));
    OP_REQUIRES_OK(context,
                   ReadScalar(context, "temperature", &options.temperature));
    OP_REQUIRES_OK(context, ReadScalar(context, "top_k", &options.top_k));
    OP_REQUIRES_OK(context, ReadScalar(context, "top_p", &options.top_p));
    OP_REQUIRES(context, options.num_samples >= 0,
                absl::InvalidArgumentError(absl::StrCat(
                    "num_samples = ", options.num_samples, " is negative")));
    OP_REQUIRES(context,
                options.temperature > 0 && std::isfinite(options.temperature),
                absl::InvalidArgumentError(
                    absl::StrCat("temperature = ", options.temperature,
                                 " is not a positive finite number")));
    if (options.top_k != 0) {
      OP_REQUIRES_OK(context, CheckRange("top_k", options.top_k, 1, num_classes,
                                         kHighIsClasses));
    }
    OP_REQUIRES(context, options.top_p > 0 && options.top_p <= 1,
                absl::InvalidArgumentError(absl::StrCat(
                    "top_p = ", options.top_p, " is outside (0, 1]")));
    TensorShape shape;
    OP_REQUIRES(context,
                Append(in.batch_shape, options.num_samples, &shape).ok(),
                absl::InvalidArgumentError(absl::StrCat(
                    "num_samples = ", options.num_samples, " is too large for ",
                    in.descent.num_examples, " inputs")));
    Tensor* classes;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &classes));
    OP_REQUIRES_OK(context, Run([&] {
                     return Sample(in.descent, options,
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
    OP_REQUIRES_OK(context, ReadTreeAbove(context, &in.descent.tree));
    const Tensor* classes;
    OP_REQUIRES_OK(context, context->input("classes", &classes));
    const TensorShape& batch = in.batch_shape;
    TensorShape leading = classes->shape();
    const int64_t count =
        leading.dims() > 0 ? leading.dim_size(leading.dims() - 1) : 0;
    if (leading.dims() > 0) leading.RemoveLastDims(1);
    OP_REQUIRES(context, classes->dims() > 0 && leading == batch,
                absl::InvalidArgumentError(absl::StrCat(
                    "classes must have the shape of inputs but for its last "
                    "dimension, ",
                    batch.DebugString(), ", and one more dimension, but have ",
                    classes->shape().DebugString())));
    std::vector<int64_t> ids;
    Tensor* log_probs;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, classes->shape(), &log_probs));
    OP_REQUIRES_OK(context, Run([&] {
                     CopyIntegers(*classes, &ids);
                     return ClassLogProbs(in.descent, ids.data(), count,
                                          Inputs::template Data<A>(*log_probs));
                   }));
  }
};

TF_HSM_REGISTER_INFERENCE("TfHsmTopK", TopKOp);
TF_HSM_REGISTER_INFERENCE("TfHsmSample", SampleOp);
TF_HSM_REGISTER_INFERENCE("TfHsmClassLogProbs", ClassLogProbsOp);

}  // namespace
}  // namespace tf_hsm
