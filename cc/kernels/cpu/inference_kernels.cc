// Top-k, sampling, the log-probabilities of given classes, and the
// log-probabilities of all classes or nodes with their gradient, on the CPU,
// for tensors and for variables.

#include <limits>
#include <vector>

#include "cc/core/api/class_log_probs.h"
#include "cc/core/api/group_scores.h"
#include "cc/core/api/label_ranks.h"
#include "cc/core/api/log_probs.h"
#include "cc/core/api/sample.h"
#include "cc/core/api/search.h"
#include "cc/core/base/isa.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/inference_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/cpu/pack_inputs.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {
namespace {

// What InferenceArguments reads, as the core takes it.
template <typename T>
class InferenceBatch {
 public:
  absl::Status Read(OpKernelContext* context,
                    const TreeAttributes& attributes) {
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes, kDataType<T>));
    scorer.logit_soft_cap = attributes.logit_soft_cap;
    PreferHugePages(arguments.parameters);
    scorer.tree = arguments.tree;
    scorer.width = arguments.width;
    scorer.num_examples = arguments.num_examples;
    scorer.quantized = arguments.quantized;
    if (arguments.quantized.codes == nullptr) {
      scorer.weights = Data<T>(arguments.parameters.weights());
    }
    scorer.biases = Data<T>(arguments.parameters.biases());
    scorer.root_log_probs =
        Data<const Accumulator<T>>(arguments.root_log_probs);
    scorer.table = &KernelTableFor<T>(ActiveIsa(nullptr));
    scorer.parallel = PoolParallel(context);
    return PackTensor(context, *arguments.inputs, /*order=*/nullptr,
                      scorer.num_examples, scorer.width, scorer.parallel,
                      &packed_, &scorer.x);
  }

  InferenceArguments arguments;
  GroupScorer<T> scorer;

 private:
  Tensor packed_;
};

template <typename T>
struct TopKOp : SigmoidAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    TopKInputs wanted;
    TopKOutputs<A> out;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    in.scorer.has_sigmoids = has_sigmoids;
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments));
    TF_RETURN_IF_ERROR(out.Allocate(context, in.arguments, wanted));
    SearchOptions options;
    options.max_classes = wanted.k;
    options.beam_width = wanted.beam_width;
    if (wanted.has_mask) options.allowed = &wanted.mask;
    auto found = [&](int64_t example, const SearchResult<A>& result) {
      const int64_t first = example * wanted.k;
      // NaN is last: if the first is NaN, no class has a probability.
      const bool has_best =
          result.num_classes > 0 && !std::isnan(result.classes[0].log_prob);
      for (int64_t i = 0; i < result.num_classes; ++i) {
        out.log_probs[first + i] = result.classes[i].log_prob;
        out.classes[first + i] = has_best ? result.classes[i].id : -1;
      }
      // Bounds and masks may leave fewer; else, that is an error later.
      for (int64_t i = result.num_classes; i < wanted.k; ++i) {
        out.log_probs[first + i] = -std::numeric_limits<A>::infinity();
        out.classes[first + i] = -1;
      }
      out.num_pruned[example] = result.num_pruned;
      out.best_class[example] = has_best ? result.classes[0].id : -1;
    };
    return StatusOf(FindBestClasses<T>(in.scorer, options, found,
                                       Data<const A>(wanted.bounds)));
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
    return StatusOf(Sample(in.scorer, wanted.options, Data<int64_t>(*classes)));
  }
};

template <typename T>
struct ClassLogProbsOp : SigmoidAttributes {
  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    ClassInputs wanted;
    Tensor* log_probs;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    in.scorer.has_sigmoids = has_sigmoids;
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments, &in.scorer.tree));
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, wanted.classes->shape(), &log_probs));
    std::vector<int64_t> ids;
    CopyIntegers(*wanted.classes, &ids);
    return StatusOf(ClassLogProbs(in.scorer, ids.data(), wanted.count,
                                  Data<Accumulator<T>>(*log_probs)));
  }
};

template <typename T>
struct LabelRanksOp : TreeAttributes {
  absl::Status Run(OpKernelContext* context) const {
    InferenceBatch<T> in;
    LabelRanksInputs wanted;
    Tensor* ranks;
    TF_RETURN_IF_ERROR(in.Read(context, *this));
    TF_RETURN_IF_ERROR(wanted.Read(context, in.arguments, &in.scorer.tree));
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, in.arguments.batch_shape, &ranks));
    return StatusOf(LabelRanks(in.scorer, Data<int64_t>(*wanted.labels),
                               wanted.k, Data<int64_t>(*ranks)));
  }
};

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
      return Unimplemented("quantized weights have no gradient");
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

const KernelRegistration<TopKOp> top_k(kCpu, "TfHsmTopK");
const KernelRegistration<SampleOp> sample(kCpu, "TfHsmSample");
const KernelRegistration<ClassLogProbsOp> class_log_probs(kCpu,
                                                          "TfHsmClassLogProbs");
const KernelRegistration<LabelRanksOp> label_ranks(kCpu, "TfHsmLabelRanks");
const KernelRegistration<LogProbsOp> log_probs(kCpu, "TfHsmLogProbs");
const KernelRegistration<LogProbsGradOp> log_probs_grad(kCpu,
                                                        "TfHsmLogProbsGrad");

}  // namespace
}  // namespace tf_hsm
