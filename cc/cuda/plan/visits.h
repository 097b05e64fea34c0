// The plan of a batch of label sets, in the place of a plan of labels: see
// cc/cuda/api/label_tree.h. The host makes it (cc/core/plan/label_plan.h) and
// the device has a copy, with the same bytes at the same places.
//
// The visits are passes, all of the level 0, in the order of their groups. All
// nodes are large, none is hot, and the gradients of all logits are kept.

#ifndef TF_HSM_CC_CUDA_PLAN_VISITS_H_
#define TF_HSM_CC_CUDA_PLAN_VISITS_H_

#include <cstdint>
#include <vector>

#include "cc/core/plan/label_plan.h"
#include "cc/cuda/device/arena.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

// The first bytes.
struct VisitHeader {
  int64_t num_examples;
  int64_t num_positives;
  Bounds bounds;  // exact
  Counts counts;
};

// The lists of a LabelPlan.
struct VisitLists {
  int32_t* positive_starts = nullptr;  // [visits + 1], null: no label tree
  int32_t* positives = nullptr;        // rows, counted in the visit's group
  int32_t* example_starts = nullptr;   // [examples + 1]
  int32_t* example_visits = nullptr;   // [visits]
};

// Where the arrays of a plan lie from `base` on; returns how many bytes they
// take. The plan has neither depths nor paths.
inline int64_t LayOutVisits(const VisitHeader& header, const void* base,
                            DevicePlan* plan, VisitLists* lists) {
  const int64_t visits = header.bounds.passes, nodes = header.bounds.nodes;
  Arena arena(const_cast<void*>(base));
  VisitHeader* own;
  arena.Take(1, &own);
  plan->counts = own == nullptr ? nullptr : &own->counts;
  plan->size = visits;
  arena.Take(visits, &plan->order);
  arena.Take(nodes, &plan->nodes);
  arena.Take(nodes, &plan->totals);
  arena.Take(nodes, &plan->work);
  arena.Take(visits + 1, &lists->positive_starts);
  arena.Take(header.num_positives, &lists->positives);
  arena.Take(header.num_examples + 1, &lists->example_starts);
  arena.Take(visits, &lists->example_visits);
  return arena.bytes();
}

// The bytes of `labels`, whose visits the forward takes `forward_examples` at a
// time.
std::vector<char> PackVisits(const LabelPlan& labels, int64_t forward_examples);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_VISITS_H_
