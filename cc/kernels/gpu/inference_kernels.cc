// Top-k and sampling on a GPU, for tensors and for variables. The best classes
// are found exactly.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/core/api/class_mask.h"
#include "cc/cuda/api/inference.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/gpu/inference_batch.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm::gpu {
namespace {

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

// A copy of a mask's lists, which it checks, in device memory.
class DeviceMask {
 public:
  absl::Status Copy(OpKernelContext* context, const ClassMask& mask,
                    int64_t num_classes) {
    TF_RETURN_IF_ERROR(StatusOf(CheckMask(mask, num_classes)));
    std::vector<int64_t> numbers(mask.splits, mask.splits + mask.num_lists + 1);
    numbers.insert(numbers.end(), mask.ranks, mask.ranks + mask.num_ranks);
    const int64_t bytes = numbers.size() * sizeof(int64_t);
    TF_RETURN_IF_ERROR(memory_.Allocate(context, bytes));
    TF_RETURN_IF_ERROR(
        CopyToDevice(context, numbers.data(), bytes, memory_.data()));
    const int64_t* splits = static_cast<const int64_t*>(memory_.data());
    ranks_ = {splits + mask.num_lists + 1, splits, mask.num_lists};
    return absl::OkStatus();
  }

  const AllowedRanks& ranks() const { return ranks_; }

 private:
  DeviceMemory memory_;
  AllowedRanks ranks_;
};

// Fills best.log_probs and best.classes; best.k and wanted.k are equal.
template <typename T>
absl::Status FindBest(OpKernelContext* context, const BestClasses& best,
                      const WantedClasses& wanted, InferenceBatch<T>* in) {
  if constexpr (std::is_same<T, double>::value) {
    return CheckFindBest<T>("top_k", best.k);
  } else {
    const SearchShape shape = FitSearch(in->batch, best.k, kMaxScratchBytes);
    const int64_t bytes = TopKBytes(in->batch, best.k, shape);
    TF_RETURN_IF_ERROR(in->scratch.Allocate(context, bytes));
    return StatusOf(TopK<T>(in->batch, in->levels(), wanted, shape,
                            const_cast<float*>(best.log_probs),
                            const_cast<int64_t*>(best.classes),
                            in->scratch.data(), StreamOf(context)));
  }
}

template <typename T>
struct TopKOp : SigmoidAttributes {
  // There is no kernel for float64. TensorFlow then runs the op on tensors on
  // the CPU, but leaves variables where they are: this says what is wrong.
  static constexpr bool kTakesTensors = !std::is_same<T, double>::value;

  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    TopKInputs wanted;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    in.batch.has_sigmoids = has_sigmoids;
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments));
    if (wanted.beam_width != 0) {
      return absl::UnimplementedError(absl::StrCat(
          "beam_width = ", wanted.beam_width,
          ": there are no beams on a GPU; leave it out, or keep the weights on "
          "the CPU"));
    }
    TF_RETURN_IF_ERROR(CheckFindBest<T>("k", wanted.k));
    DeviceMask mask;
    if (wanted.has_mask) {
      const int64_t classes = in.arguments.tree.num_classes;
      TF_RETURN_IF_ERROR(mask.Copy(context, wanted.mask, classes));
    }
    TopKOutputs<float> out;
    TF_RETURN_IF_ERROR(out.Allocate(context, in.arguments, wanted));
    const BestClasses best = {in.batch.size, wanted.k, out.log_probs,
                              out.classes};
    // The bounds are float32: CheckFindBest refuses float64.
    const float* bounds = Data<const float>(wanted.bounds);
    TF_RETURN_IF_ERROR(
        FindBest(context, best, {best.k, bounds, mask.ranks()}, &in));
    return StatusOf(SplitBest(best, out.classes, out.best_class, out.num_pruned,
                              StreamOf(context)));
  }
};

template <typename T>
struct SampleOp : TreeAttributes {
  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    SampleInputs wanted;
    Tensor* classes;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments));
    TF_RETURN_IF_ERROR(context->allocate_output(0, wanted.shape, &classes));
    if (classes->NumElements() == 0) return absl::OkStatus();
    const SampleOptions& options = wanted.options;
    int64_t* out = Data<int64_t>(*classes);
    return options.is_restricted() ? DrawBest(context, options, &in, out)
                                   : DrawAll(context, options, &in, out);
  }

  static SampleArguments ArgumentsOf(const SampleOptions& options) {
    return {options.num_samples, options.seed_0, options.seed_1,
            options.temperature};
  }

  static absl::Status DrawAll(OpKernelContext* context,
                              const SampleOptions& options,
                              InferenceBatch<T>* in, int64_t* classes) {
    SampleArguments arguments = ArgumentsOf(options);
    // Its inverse, zero or infinite, would make NaN of logits.
    using Limits = std::numeric_limits<Accumulator<T>>;
    arguments.temperature =
        1 / std::clamp<double>(1 / arguments.temperature, 4 * Limits::min(),
                               Limits::max() / 4);
    TF_RETURN_IF_ERROR(
        in->scratch.Allocate(context, SampleBytes(in->batch, arguments)));
    return StatusOf(Sample<T>(in->batch, in->levels(), arguments, classes,
                              in->scratch.data(), StreamOf(context)));
  }

  // Gives the batch the shares of its roots for their log-probabilities, if it
  // has these: so top_p is a share. Fills `bounds` for what has no share.
  static absl::Status UseShares(OpKernelContext* context, DeviceMemory* shares,
                                DeviceMemory* bounds, InferenceBatch<T>* in) {
    if constexpr (!std::is_same<T, double>::value) {
      Batch<T>* batch = &in->batch;
      if (batch->root_log_probs == nullptr) return absl::OkStatus();
      const int64_t roots = batch->tree.num_roots;
      TF_RETURN_IF_ERROR(
          shares->Allocate(context, batch->size * roots * sizeof(float)));
      TF_RETURN_IF_ERROR(
          bounds->Allocate(context, batch->size * sizeof(float)));
      const RootShares made = {batch->size, roots, batch->root_log_probs,
                               static_cast<float*>(shares->data()),
                               static_cast<float*>(bounds->data())};
      batch->root_log_probs = made.log_shares;
      return StatusOf(ShareRoots(made, StreamOf(context)));
    }
    return absl::OkStatus();
  }

  static absl::Status DrawBest(OpKernelContext* context,
                               const SampleOptions& options,
                               InferenceBatch<T>* in, int64_t* classes) {
    const int64_t num_classes = in->arguments.tree.num_classes;
    const int64_t size = in->batch.size;
    const int64_t k = options.top_k > 0
                          ? options.top_k
                          : std::min<int64_t>(num_classes, kMaxTopK);
    TF_RETURN_IF_ERROR(
        CheckFindBest<T>(options.top_k > 0 ? "top_k" : "top_p", k));
    DeviceMemory log_probs, ids, too_few;
    TF_RETURN_IF_ERROR(log_probs.Allocate(context, size * k * sizeof(float)));
    TF_RETURN_IF_ERROR(ids.Allocate(context, size * k * sizeof(int64_t)));
    TF_RETURN_IF_ERROR(too_few.Allocate(context, size * sizeof(int32_t)));
    const BestClasses best = {size, k,
                              static_cast<const float*>(log_probs.data()),
                              static_cast<const int64_t*>(ids.data())};
    DeviceMemory shares, bounds;
    TF_RETURN_IF_ERROR(UseShares(context, &shares, &bounds, in));
    const WantedClasses wanted = {
        k, static_cast<const float*>(bounds.data()), {}};
    TF_RETURN_IF_ERROR(FindBest(context, best, wanted, in));
    TF_RETURN_IF_ERROR(StatusOf(DrawFromBest(
        best, options.top_p, options.cuts_all(), ArgumentsOf(options), classes,
        static_cast<int32_t*>(too_few.data()), StreamOf(context))));
    if (!options.cuts_all() || k == num_classes) return absl::OkStatus();
    std::vector<int32_t> flags(size);
    TF_RETURN_IF_ERROR(CopyFromDevice(context, too_few.data(),
                                      size * sizeof(int32_t), flags.data()));
    const auto bad = std::find(flags.begin(), flags.end(), 1);
    if (bad == flags.end()) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "top_p = ", options.top_p, " is not reached by the ", k,
        " most probable classes of input ", bad - flags.begin(),
        ", which are all that a GPU finds: set top_k too, or keep the weights "
        "on the CPU"));
  }
};

const KernelRegistration<TopKOp> top_k(
    kGpu, "TfHsmTopK",
    InferenceHostMemory({"k", "beam_width", "row_spans", "allowed_ranks",
                         "allowed_splits"}));
const KernelRegistration<SampleOp> sample(
    kGpu, "TfHsmSample",
    InferenceHostMemory({"num_samples", "seed", "temperature", "top_k",
                         "top_p"}));

}  // namespace
}  // namespace tf_hsm::gpu
