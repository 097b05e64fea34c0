// The gradient of a group of two rows that several blocks of examples share,
// from the part that each of their spans made (binary_groups-inl.h).
//
// The parts are added in the order of the spans, whichever thread made them.

#ifndef TF_HSM_CC_CORE_GROUPS_PARTIAL_GRADIENTS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_PARTIAL_GRADIENTS_INL_H_

#include <cstdint>

#include "cc/core/groups/problem.h"
#include "cc/core/simd/vector-inl.h"
#include "cc/core/update/update_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Updates the node by the sum of its partial gradients, made in place of the
// first.
template <typename T>
void UpdateByPartials(const Plan& plan, const Node& node, int64_t width,
                      const BackwardArguments<T>& args) {
  using A = Accumulator<T>;
  const int64_t stride = PartialStride(width);
  A* sum = args.partials + node.partial_offset * stride;
  for (int64_t span = 1; span < node.Count(plan.span); ++span) {
    const A* part = sum + span * stride;
    for (int64_t d = 0; d < stride; d += kLanes<A>) {
      Store(sum + d, Load(sum + d) + Load(part + d));
    }
  }
  const A db[] = {sum[width], -sum[width]};
  const int64_t first = plan.FirstWeightRow(node);
  if (plan.pinned) {
    UpdateWeights(*args.update, first, 1, width, sum);
  } else {
    UpdatePair(*args.update, first, width, sum);
  }
  UpdateBiases(*args.update, first, plan.NumWeightRows(node), db);
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_PARTIAL_GRADIENTS_INL_H_
