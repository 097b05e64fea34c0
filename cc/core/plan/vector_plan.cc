#include "cc/core/plan/vector_plan.h"

namespace tf_hsm {

void PlanVectors(const std::vector<KeyAndIndex>& rows, const int64_t* examples,
                 int64_t num_examples, int64_t span, VectorPlan* plan) {
  auto span_of = [=](int64_t vector) {
    return (examples ? examples[vector] : vector) / span;
  };
  // The first vector of each sum, by row.
  std::vector<KeyAndIndex>& firsts = plan->shared;
  firsts.clear();
  firsts.reserve(rows.size());
  plan->vectors.resize(rows.size());
  int64_t last_span = -1;
  for (const KeyAndIndex& one : rows) {
    const int64_t at = span_of(one.index);
    const bool is_first =
        firsts.empty() || one.key != firsts.back().key || at != last_span;
    last_span = at;
    if (is_first) firsts.push_back(one);
    // For now, of its sum the first vector.
    plan->vectors[one.index] = {one.key, firsts.back().index, is_first};
  }
  plan->sums.clear();
  plan->sums.reserve(firsts.size());
  plan->span_starts.assign((num_examples + span - 1) / span + 1, 0);
  for (size_t i = 0; i < plan->vectors.size(); ++i) {
    VectorPlan::Vector& vector = plan->vectors[i];
    if (vector.is_first) {
      vector.sum = static_cast<int64_t>(plan->sums.size());
      plan->sums.push_back({vector.row, false});
      plan->span_starts[span_of(i) + 1] = vector.sum + 1;
    } else {
      vector.sum = plan->vectors[vector.sum].sum;
    }
  }
  for (size_t i = 1; i < plan->span_starts.size(); ++i) {  // of no vectors
    int64_t& start = plan->span_starts[i];
    if (start == 0) start = plan->span_starts[i - 1];
  }
  // Those of one row follow each other.
  size_t num_shared = 0;
  bool follows = false;
  for (size_t i = 0; i < firsts.size(); ++i) {
    const KeyAndIndex one = firsts[i];
    const int64_t sum = plan->vectors[one.index].sum;
    const bool is_followed =
        i + 1 < firsts.size() && firsts[i + 1].key == one.key;
    if (follows || is_followed) {
      firsts[num_shared++] = {one.key, sum};
    } else {
      plan->sums[sum].is_whole = true;
    }
    follows = is_followed;
  }
  firsts.resize(num_shared);
}

}  // namespace tf_hsm
