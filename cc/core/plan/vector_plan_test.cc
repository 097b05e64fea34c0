// The sums of vectors against sets of them, one span after another.

#include "cc/core/plan/vector_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// `per_example` vectors each; 0: from none to four.
void Check(int64_t examples, int64_t per_example, int64_t rows, int64_t span,
           std::mt19937* rng) {
  const std::string name = std::to_string(examples) + " examples of " +
                           std::to_string(per_example) + ", spans of " +
                           std::to_string(span);
  std::vector<int64_t> row_of, example_of;
  for (int64_t at = 0; at < examples; ++at) {
    const int64_t count = per_example > 0 ? per_example : (*rng)() % 5;
    for (int64_t i = 0; i < count; ++i) {
      row_of.push_back((*rng)() % rows);
      example_of.push_back(at);
    }
  }
  const int64_t count = static_cast<int64_t>(row_of.size());
  std::vector<KeyAndIndex> sorted(count);
  for (int64_t i = 0; i < count; ++i) sorted[i] = {row_of[i], i};
  SortByKey(&sorted);
  VectorPlan plan;
  PlanVectors(sorted, per_example == 1 ? nullptr : example_of.data(), examples,
              span, &plan);

  std::map<std::pair<int64_t, int64_t>, int64_t> sums;  // span, row -> sum
  std::map<int64_t, std::set<int64_t>> spans_of;        // row -> spans
  for (int64_t i = 0; i < count; ++i) {
    spans_of[row_of[i]].insert(example_of[i] / span);
  }
  int64_t past = 0;
  for (int64_t i = 0; i < count; ++i) {
    const VectorPlan::Vector& vector = plan.vectors[i];
    const auto key = std::make_pair(example_of[i] / span, row_of[i]);
    const bool is_first = sums.count(key) == 0;
    if (is_first) sums[key] = past++;
    Expect(vector.row == row_of[i] && vector.is_first == is_first &&
               vector.sum == sums[key],
           name + " vectors");
    Expect(plan.span_starts[key.first] <= vector.sum &&
               vector.sum < plan.span_starts[key.first + 1],
           name + " spans");
  }
  Expect(static_cast<int64_t>(plan.sums.size()) == past, name + " sums");
  Expect(plan.span_starts.front() == 0 && plan.span_starts.back() == past &&
             static_cast<int64_t>(plan.span_starts.size()) ==
                 (examples + span - 1) / span + 1 &&
             std::is_sorted(plan.span_starts.begin(), plan.span_starts.end()),
         name + " starts");
  std::set<int64_t> shared;
  for (const KeyAndIndex& one : plan.shared) {
    Expect(plan.sums[one.index].row == one.key, name + " rows of shared sums");
    shared.insert(one.index);
  }
  Expect(shared.size() == plan.shared.size(), name + " shared once");
  Expect(std::is_sorted(plan.shared.begin(), plan.shared.end(),
                        [](const KeyAndIndex& a, const KeyAndIndex& b) {
                          return std::make_pair(a.key, a.index) <
                                 std::make_pair(b.key, b.index);
                        }),
         name + " order of shared sums");
  for (const auto& [key, sum] : sums) {
    const bool is_whole = spans_of[key.second].size() == 1;
    Expect(plan.sums[sum].row == key.second &&
               plan.sums[sum].is_whole == is_whole &&
               shared.count(sum) == !is_whole,
           name + " whole sums");
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  for (int64_t examples : {0, 1, 31, 32, 33, 200, 1000}) {
    for (int64_t per_example : {0, 1, 3}) {
      for (int64_t rows : {1, 7, 300, 100000}) {
        for (int64_t span : {32, 64, 512}) {
          Check(examples, per_example, rows, span, &rng);
        }
      }
    }
  }
  return Summarize();
}
