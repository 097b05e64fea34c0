// What the losses on the CPU keep for their gradient.

#ifndef TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_
#define TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/base/types.h"
#include "cc/core/groups/problem.h"
#include "cc/core/plan/label_plan.h"
#include "cc/core/plan/plan.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {

// The gradient of the parameters by the sum of the losses, which a loss in
// chunks (LossInChunks) has made: for losses that all weigh the same.
class ReadyGradient {
 public:
  // Makes the gradient by losses of this weight the op's outputs 1 and 2. The
  // first call multiplies the sums where they lie, and gives them away; so do
  // later ones with the same weight. Others make copies.
  template <typename T>
  absl::Status SetOutputs(OpKernelContext* context, Accumulator<T> weight,
                          const Parallel& parallel) {
    using A = Accumulator<T>;
    constexpr bool is_same = kDataType<T> == kDataType<A>;
    const A rest = is_same ? MultiplyOnce(weight, parallel) : weight;
    for (int i : {1, 2}) {
      const Tensor& sums = i == 1 ? dw : db;
      if (is_same && rest == 1) {
        context->set_output(i, sums);
        continue;
      }
      Tensor* output;
      TF_RETURN_IF_ERROR(AllocateOutput(context, i, sums.shape(), &output));
      using Number = typename tensorflow::EnumToDataType<kDataType<T>>::Type;
      const A* from = Data<A>(sums);
      Number* to = Data<Number>(*output);
      ForNumbers(sums.NumElements(), parallel, [&](int64_t at) {
        to[at] = static_cast<Number>(from[at] * rest);
      });
    }
    return absl::OkStatus();
  }

  // Returns the factor by which the sums become the gradients of losses that
  // have this weight. No call changes the sums from now on.
  template <typename A>
  A FactorOf(A weight) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (weight_ == 0) weight_ = 1;
    return Rest(weight);
  }

  Tensor dw, db;  // [fanout, width], [fanout]; accumulators

 private:
  // Multiplies the sums by `weight` if nobody has them yet. Returns what they
  // are still to be multiplied by.
  template <typename A>
  A MultiplyOnce(A weight, const Parallel& parallel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (weight_ == 0) {
      // Products that are too small or too large could not be undone.
      const A size = std::abs(weight);
      const A factor = size > A(1e-12) && size < A(1e12) ? weight : A(1);
      for (const Tensor* sums : {&dw, &db}) {
        A* values = Data<A>(*sums);
        ForNumbers(sums->NumElements(), parallel,
                   [&](int64_t at) { values[at] *= factor; });
      }
      weight_ = factor;
    }
    return Rest(weight);
  }

  template <typename A>
  A Rest(A weight) const {
    const A so_far = static_cast<A>(weight_);
    return weight == so_far ? A(1) : weight / so_far;
  }

  // Calls work(i) for i in [0, count).
  template <typename Work>
  static void ForNumbers(int64_t count, const Parallel& parallel,
                         const Work& work) {
    constexpr int64_t kPart = 1 << 18;
    parallel((count + kPart - 1) / kPart, [&](int64_t part) {
      const int64_t end = std::min((part + 1) * kPart, count);
      for (int64_t i = part * kPart; i < end; ++i) work(i);
    });
  }

  std::mutex mutex_;
  double weight_ = 0;  // of the losses in the sums; 0: 1, and nobody has them
};

// The plan and the inputs in its order stay too: no gradient makes them again.
struct CpuLossState : LossState {
  CpuLossState(const LossArguments& arguments, const LossAttributes& attributes,
               LabelPlan the_labels, const Tensor& the_x,
               const Tensor& the_normalizers, const Tensor& the_probs)
      : LossState(StateOf::kCpu, arguments),
        labels(std::move(the_labels)),
        x(the_x),
        normalizers(the_normalizers),
        probs(the_probs),
        label_smoothing(attributes.label_smoothing),
        logit_soft_cap(attributes.logit_soft_cap),
        z_loss(attributes.z_loss) {
    if (arguments.smoothing_prior != nullptr) {
      smoothing_prior = *arguments.smoothing_prior;
    }
  }

  const Plan& plan() const { return labels.plan; }
  bool is_label_tree() const { return !labels.example_starts.empty(); }

  // Whether `ready` serves losses of these weights: all are equal. A NaN never
  // is. A batch that is ready has examples.
  template <typename A>
  bool IsReady(const std::vector<A>& weights) const {
    return ready != nullptr &&
           std::all_of(weights.begin(), weights.end(),
                       [&](A weight) { return weight == weights[0]; });
  }

  // The loss's problem, but with these parameters.
  template <typename T>
  Problem<T> ProblemOf(const Parameters& parameters) const {
    Problem<T> problem;
    problem.plan = &plan();
    problem.width = parameters.weights().dim_size(1);
    problem.weights = Data<T>(parameters.weights());
    problem.biases = Data<T>(parameters.biases());
    problem.x = Data<Accumulator<T>>(x);
    problem.label_smoothing = label_smoothing;
    problem.logit_soft_cap = logit_soft_cap;
    problem.z_loss = z_loss;
    if (smoothing_prior.NumElements() > 0) {
      problem.smoothing_prior = Data<float>(smoothing_prior);
    }
    return problem;
  }

  // The backward's inputs. `loss_grads` are in sorted order, and must outlive
  // the result.
  template <typename T>
  BackwardArguments<T> BackwardOf(
      const std::vector<Accumulator<T>>& loss_grads) const {
    BackwardArguments<T> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = Data<Accumulator<T>>(normalizers);
    if (probs.NumElements() > 0) arguments.probs = Data<Accumulator<T>>(probs);
    return arguments;
  }

  const LabelPlan labels;    // of a softmax tree, its plan alone
  const Tensor x;            // Problem::x
  const Tensor normalizers;  // as are these two, BackwardArguments' ones
  const Tensor probs;        // without elements if not kept
  const float label_smoothing, logit_soft_cap, z_loss;
  Tensor smoothing_prior;  // without elements if there is none
  // Null, or what the loss has made already. A gradient changes it.
  std::unique_ptr<ReadyGradient> ready;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_
