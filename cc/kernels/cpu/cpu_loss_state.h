// What the losses on the CPU keep for their gradient.

#ifndef TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_
#define TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_

#include <memory>
#include <utility>

#include "cc/core/plan/plan.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/cpu/ready_gradient.h"

namespace tf_hsm {

// The plan and the inputs in its order stay too: no gradient makes them again.
struct CpuLossState : LossState {
  CpuLossState(const LossArguments& arguments, Plan the_plan,
               const Tensor& the_x, const Tensor& the_normalizers,
               const Tensor& the_probs, float the_label_smoothing = 0,
               float the_logit_soft_cap = 0)
      : LossState(StateOf::kCpu, arguments),
        plan(std::move(the_plan)),
        x(the_x),
        normalizers(the_normalizers),
        probs(the_probs),
        label_smoothing(the_label_smoothing),
        logit_soft_cap(the_logit_soft_cap) {
    if (arguments.smoothing_prior != nullptr) {
      smoothing_prior = *arguments.smoothing_prior;
    }
  }

  const Plan plan;
  const Tensor x;            // Problem::x
  const Tensor normalizers;  // as are these two, BackwardArguments' ones
  const Tensor probs;        // without elements if not kept
  const float label_smoothing, logit_soft_cap;
  Tensor smoothing_prior;  // without elements if there is none
  // Null, or what the loss has made already. A gradient changes it.
  std::unique_ptr<ReadyGradient> ready;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_CPU_LOSS_STATE_H_
