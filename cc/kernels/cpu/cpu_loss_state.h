// What the losses on the CPU keep for their gradient.

#ifndef TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_
#define TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/groups/problem.h"
#include "cc/core/plan/label_plan.h"
#include "cc/core/plan/plan.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/cpu/ready_gradient.h"

namespace tf_hsm {

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
    const Tensor* biases = parameters.biases();
    Problem<T> problem;
    problem.plan = &plan();
    problem.width = parameters.weights().dim_size(1);
    problem.weights = Data<T>(parameters.weights());
    problem.biases = biases ? Data<T>(*biases) : nullptr;
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
