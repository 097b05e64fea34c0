// The loss of a label tree on a GPU: what its callers do beside gpu.h.
//
// The host plans which groups the label sets visit (cc/core/plan/label_plan.h):
// so a wrong label raises an error, and memory follows from the visits, not
// from the most that label sets of this size can make. The visits take the
// place of the batch's examples:
//
//   bytes = PlanVisits(labels, &batch);
//   batch.device_visits = a copy of the bytes in device memory;
//
// and Forward, Backward and the steps do the rest as for other batches, with
// losses, dx and loss_grads of the examples.

#ifndef TF_HSM_CC_CUDA_API_LABEL_TREE_H_
#define TF_HSM_CC_CUDA_API_LABEL_TREE_H_

#include <vector>

#include "cc/core/plan/label_plan.h"
#include "cc/cuda/api/gpu.h"

namespace tf_hsm::gpu {

// Makes `batch`, which has the counts of its tree, parameters and inputs, one
// of visits. It points at the bytes, which must outlive it.
template <typename T>
std::vector<char> PlanVisits(const LabelPlan& labels, Batch<T>* batch);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_API_LABEL_TREE_H_
