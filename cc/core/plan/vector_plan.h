// Where a training step that reads its inputs from a table of vectors sums
// their gradients.
//
// Each span of examples (plan.h) has a sum for each of its vectors, which one
// thread makes and the second cache holds. A vector of one span alone has its
// whole gradient there; nobody else reads it, so it is updated at the end of
// the span. The sums of the others meet at the end of the step.

#ifndef TF_HSM_CC_CORE_PLAN_VECTOR_PLAN_H_
#define TF_HSM_CC_CORE_PLAN_VECTOR_PLAN_H_

#include <cstdint>
#include <vector>

#include "cc/core/base/radix_sort.h"

namespace tf_hsm {

struct VectorPlan {
  // A vector of an example.
  struct Vector {
    int64_t row = 0;        // of the table
    int64_t sum = 0;        // which its example's dx is part of
    bool is_first = false;  // of the sum, in sorted order
    bool is_whole = false;  // no other sum is of this row
  };

  std::vector<Vector> vectors;  // of the sorted examples
  // Sums lie in the order of their rows, those of a row in that of their spans.
  int64_t num_sums = 0;
  std::vector<KeyAndIndex> shared;  // row and sum of each that is not whole
};

// `rows` are those of the sorted examples' vectors as SortRows
// (sparse_update.h) returns them, of examples in spans of `span`; examples[i]
// is that of the i-th vector, i where it is null.
void PlanVectors(const std::vector<KeyAndIndex>& rows, const int64_t* examples,
                 int64_t span, VectorPlan* plan);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_VECTOR_PLAN_H_
