#include "cc/core/plan/vector_plan.h"

namespace tf_hsm {

void PlanVectors(const std::vector<KeyAndIndex>& rows, const int64_t* examples,
                 int64_t span, VectorPlan* plan) {
  auto span_of = [=](const KeyAndIndex& one) {
    return (examples ? examples[one.index] : one.index) / span;
  };
  const size_t count = rows.size();
  plan->vectors.resize(count);
  plan->num_sums = 0;
  plan->shared.clear();
  for (size_t begin = 0, end; begin < count; begin = end) {
    const int64_t row = rows[begin].key;
    for (end = begin; end < count && rows[end].key == row;) ++end;
    const bool is_whole = span_of(rows[begin]) == span_of(rows[end - 1]);
    int64_t last_span = -1;
    for (size_t i = begin; i < end; ++i) {
      const int64_t at = span_of(rows[i]);
      const bool is_first = at != last_span;
      last_span = at;
      const int64_t sum = plan->num_sums += is_first;
      plan->vectors[rows[i].index] = {row, sum - 1, is_first, is_whole};
      if (is_first && !is_whole) plan->shared.push_back({row, sum - 1});
    }
  }
}

}  // namespace tf_hsm
