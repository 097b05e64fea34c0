// The prior of label smoothing, which may hold anything.

#ifndef TF_HSM_CC_CORE_PLAN_SMOOTHING_PRIOR_H_
#define TF_HSM_CC_CORE_PLAN_SMOOTHING_PRIOR_H_

#include <string>

#include "cc/core/plan/plan.h"

namespace tf_hsm {

// Checks the rows of the touched groups, of a prior [rows of the tree]: each
// number is in [0, 1], and those of a group sum to 1, to rounding. Returns an
// empty string, or a sentence that names the first position or group that is
// wrong. Costs a read of these rows.
std::string CheckSmoothingPrior(const Plan& plan, const float* prior);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_SMOOTHING_PRIOR_H_
