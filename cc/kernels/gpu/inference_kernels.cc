// Top-k and sampling on a GPU, for tensors and for variables. The best classes
// are found exactly, from the log-probabilities of all.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/cuda/api/best_classes.h"
#include "cc/cuda/api/inference.h"
#include "cc/kernels/gpu/inference_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm {
namespace gpu {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Whether FindBest can find `k` classes, which is what the argument `name` asks
// for.
template <typename T>
absl::Status CheckFindBest(const char* name, int64_t k) {
  if (std::is_same<T, double>::value) {
    return absl::UnimplementedError(
        absl::StrCat(name,
                     ": there is no search for the best classes with "
                     "float64 weights on a GPU; keep them on the CPU"));
  }
  if (k <= kMaxTopK) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(name, " = ", k, " is above ", kMaxTopK,
                   ", the most on a GPU; keep the weights on the CPU"));
}

// Fills best.log_probs and best.classes.
template <typename T>
absl::Status FindBest(OpKernelContext* context, const InferenceBatch<T>& in,
                      const BestClasses& best) {
  if constexpr (std::is_same<T, double>::value) {
    return CheckFindBest<T>("top_k", best.k);
  } else {
    using Core = typename InferenceBatch<T>::Core;
    auto bytes = [&](int64_t chunk) { return TopKBytes(in.batch, chunk); };
    const int64_t chunk = in.Chunk(bytes);
    Tensor scratch;
    void* memory;
    TF_RETURN_IF_ERROR(AllocateBytes(context, bytes(chunk), &scratch, &memory));
    return StatusOf(TopK<Core>(in.batch, in.levels(), best.k, chunk,
                               const_cast<float*>(best.log_probs),
                               const_cast<int64_t*>(best.classes), memory,
                               StreamOf(context)));
  }
}

template <typename T>
class TopKOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    InferenceBatch<T> in;
    TopKInputs wanted;
    OP_REQUIRES_OK(context, in.Read(context));
    OP_REQUIRES_OK(context, wanted.Read(context, in.arguments));
    OP_REQUIRES(context, wanted.beam_width == 0,
                absl::UnimplementedError(absl::StrCat(
                    "beam_width = ", wanted.beam_width,
                    ": there are no beams on a GPU; leave it out, or keep the "
                    "weights on the CPU")));
    OP_REQUIRES_OK(context, CheckFindBest<T>("k", wanted.k));
    const tensorflow::TensorShape& batch_shape = in.arguments.batch_shape;
    Tensor *log_probs, *classes, *pruned, *first;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, wanted.shape, &log_probs));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, wanted.shape, &classes));
    OP_REQUIRES_OK(context, context->allocate_output(2, batch_shape, &pruned));
    OP_REQUIRES_OK(context, context->allocate_output(3, batch_shape, &first));
    const BestClasses best = {in.batch.size, wanted.k, Data<float>(*log_probs),
                              Data<int64_t>(*classes)};
    OP_REQUIRES_OK(context, FindBest(context, in, best));
    OP_REQUIRES_OK(context, StatusOf(SplitBest(best, Data<int64_t>(*first),
                                               Data<int64_t>(*pruned),
                                               StreamOf(context))));
  }
};

template <typename T>
class SampleOp : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using In = InferenceBatch<T>;

  void Compute(OpKernelContext* context) override {
    In in;
    SampleInputs wanted;
    OP_REQUIRES_OK(context, in.Read(context));
    OP_REQUIRES_OK(context, wanted.Read(context, in.arguments));
    Tensor* classes;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, wanted.shape, &classes));
    if (classes->NumElements() == 0) return;
    const SampleOptions& options = wanted.options;
    const bool from_best = options.top_k > 0 || options.top_p < 1;
    OP_REQUIRES_OK(context, from_best ? DrawBest(context, in, options, classes)
                                      : DrawAll(context, in, options, classes));
  }

 private:
  static SampleArguments ArgumentsOf(const SampleOptions& options) {
    return {options.num_samples, options.seed_0, options.seed_1,
            options.temperature};
  }

  static absl::Status DrawAll(OpKernelContext* context, const In& in,
                              const SampleOptions& options, Tensor* classes) {
    SampleArguments arguments = ArgumentsOf(options);
    // Its inverse, zero or infinite, would make NaN of logits.
    using Limits = std::numeric_limits<typename In::A>;
    arguments.temperature =
        1 / std::clamp<double>(1 / arguments.temperature, 4 * Limits::min(),
                               Limits::max() / 4);
    Tensor scratch;
    void* memory;
    TF_RETURN_IF_ERROR(AllocateBytes(context, SampleBytes(in.batch, arguments),
                                     &scratch, &memory));
    return StatusOf(Sample<typename In::Core>(in.batch, arguments,
                                              Data<int64_t>(*classes), memory,
                                              StreamOf(context)));
  }

  static absl::Status DrawBest(OpKernelContext* context, const In& in,
                               const SampleOptions& options, Tensor* classes) {
    const int64_t num_classes = in.arguments.tree.num_classes;
    const int64_t size = in.batch.size;
    const int64_t k = options.top_k > 0
                          ? options.top_k
                          : std::min<int64_t>(num_classes, kMaxTopK);
    TF_RETURN_IF_ERROR(
        CheckFindBest<T>(options.top_k > 0 ? "top_k" : "top_p", k));
    Tensor values, ids, flags;
    void *log_probs, *best_ids, *too_few;
    TF_RETURN_IF_ERROR(
        AllocateBytes(context, size * k * sizeof(float), &values, &log_probs));
    TF_RETURN_IF_ERROR(
        AllocateBytes(context, size * k * sizeof(int64_t), &ids, &best_ids));
    TF_RETURN_IF_ERROR(
        AllocateBytes(context, size * sizeof(int32_t), &flags, &too_few));
    const BestClasses best = {size, k, static_cast<const float*>(log_probs),
                              static_cast<const int64_t*>(best_ids)};
    TF_RETURN_IF_ERROR(FindBest(context, in, best));
    TF_RETURN_IF_ERROR(StatusOf(DrawFromBest(
        best, options.top_p, ArgumentsOf(options), Data<int64_t>(*classes),
        static_cast<int32_t*>(too_few), StreamOf(context))));
    // With top_k, or all classes, as many as there are will do.
    if (options.top_k > 0 || k == num_classes) return absl::OkStatus();
    std::vector<int32_t> flags_read(size);
    TF_RETURN_IF_ERROR(CopyFromDevice(context, too_few, size * sizeof(int32_t),
                                      flags_read.data()));
    const auto bad = std::find(flags_read.begin(), flags_read.end(), 1);
    if (bad == flags_read.end()) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "top_p = ", options.top_p, " is not reached by the ", k,
        " most probable classes of input ", bad - flags_read.begin(),
        ", which are all that a GPU finds: set top_k too, or keep the weights "
        "on the CPU"));
  }
};

#define TF_HSM_TOP_K_INPUTS .HostMemory("k").HostMemory("beam_width")
TF_HSM_REGISTER_INFERENCE_OP("TfHsmTopK", TopKOp, float, TF_HSM_TOP_K_INPUTS);
TF_HSM_REGISTER_INFERENCE_OP("TfHsmTopK", TopKOp, Eigen::bfloat16,
                             TF_HSM_TOP_K_INPUTS);
TF_HSM_REGISTER_INFERENCE_OP("TfHsmTopK", TopKOp, Eigen::half,
                             TF_HSM_TOP_K_INPUTS);
// That of tensors TensorFlow runs on the CPU, where there is no kernel here;
// variables it leaves where they are, and this says what is wrong.
TF_HSM_REGISTER_DESCENT("ResourceTfHsmTopK", TopKOp, double,
                        TF_HSM_TOP_K_INPUTS);
#undef TF_HSM_TOP_K_INPUTS
TF_HSM_REGISTER_INFERENCE_OPS("TfHsmSample", SampleOp,
                              .HostMemory("num_samples")
                                  .HostMemory("seed")
                                  .HostMemory("temperature")
                                  .HostMemory("top_k")
                                  .HostMemory("top_p"));

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm
