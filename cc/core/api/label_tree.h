// The loss of a label tree (Jasinska et al., 2016), where an example may have
// any number of labels, and its gradients:
//
//   loss = sum over the visits of the example, over the group's rows r, of
//          -log(r is positive ? p_r : 1 - p_r),    p_r = 1 / (1 + exp(-z_r))
//   dz = p - [r is positive],   dx = sum over the visits of dz W_group
//
// dW = (g dz)^T x is made by Backward (loss.h) of the plan of visits, with dz
// as probabilities that have no target.

#ifndef TF_HSM_CC_CORE_API_LABEL_TREE_H_
#define TF_HSM_CC_CORE_API_LABEL_TREE_H_

#include "cc/core/base/parallel.h"
#include "cc/core/base/types.h"
#include "cc/core/groups/problem.h"
#include "cc/core/plan/label_plan.h"
#include "cc/core/table/kernel_table.h"

namespace tf_hsm {

// Where LabelTreeForward writes; null pointers are not asked for.
template <typename T>
struct LabelTreeOutputs {
  using A = Accumulator<T>;
  A* loss = nullptr;              // [batch]
  A* dx = nullptr;                // [batch, width]
  const A* dx_factors = nullptr;  // [batch], of dx; null: 1
  A* dz = nullptr;                // [plan.num_probs], always
};

// Makes loss, dx and dz. problem.plan is plan.plan, and x has a row for each
// visit. Cost: that of the visited groups, and `width` numbers per visit.
template <typename T>
void LabelTreeForward(const LabelPlan& plan, const Problem<T>& problem,
                      const KernelTable<T>& table, const Parallel& parallel,
                      const LabelTreeOutputs<T>& outputs);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LABEL_TREE_H_
