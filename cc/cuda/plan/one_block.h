// A plan of few examples, made by one block: one launch where plan.cu has
// fifteen, since a small step is bound by launches. The stages and the plan are
// the same.

#ifndef TF_HSM_CC_CUDA_PLAN_ONE_BLOCK_H_
#define TF_HSM_CC_CUDA_PLAN_ONE_BLOCK_H_

#include <cstdint>

#include "cc/cuda/plan/paths.h"

namespace tf_hsm::gpu {

constexpr int kPlanThreads = 512;
constexpr int kPlanKeys = 5;  // of a thread

// Whether one block makes the plan of `size` examples and at most `nodes`.
inline bool FitsOneBlock(const TreeView& tree, int64_t size, int64_t nodes) {
  constexpr int64_t kMost = kPlanThreads * kPlanKeys;
  constexpr int64_t kMostKeys = int64_t{1} << 31;
  return size <= kMost && nodes <= kMost && tree.num_classes < kMostKeys &&
         tree.num_groups < kMostKeys;
}

void MakePlanInOneBlock(const PlanTask& task, void* stream);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_ONE_BLOCK_H_
