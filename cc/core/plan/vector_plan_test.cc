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
  PlanVectors(sorted, per_example == 1 ? nullptr : example_of.data(), span,
              &plan);

  std::set<std::pair<int64_t, int64_t>> keys;     // row, span
  std::map<int64_t, std::set<int64_t>> spans_of;  // row -> spans
  for (int64_t i = 0; i < count; ++i) {
    keys.insert({row_of[i], example_of[i] / span});
    spans_of[row_of[i]].insert(example_of[i] / span);
  }
  // They are in the order of the sums.
  std::map<std::pair<int64_t, int64_t>, int64_t> sums;
  std::vector<KeyAndIndex> shared;
  for (const auto& key : keys) {
    const int64_t sum = static_cast<int64_t>(sums.size());
    sums[key] = sum;
    if (spans_of[key.first].size() > 1) shared.push_back({key.first, sum});
  }
  Expect(plan.num_sums == static_cast<int64_t>(sums.size()), name + " sums");
  keys.clear();
  for (int64_t i = 0; i < count; ++i) {
    const VectorPlan::Vector& vector = plan.vectors[i];
    const auto key = std::make_pair(row_of[i], example_of[i] / span);
    Expect(vector.row == row_of[i] && vector.sum == sums[key] &&
               vector.is_first == keys.insert(key).second &&
               vector.is_whole == (spans_of[row_of[i]].size() == 1),
           name + " vectors");
  }
  Expect(plan.shared.size() == shared.size() &&
             std::equal(shared.begin(), shared.end(), plan.shared.begin(),
                        [](const KeyAndIndex& a, const KeyAndIndex& b) {
                          return a.key == b.key && a.index == b.index;
                        }),
         name + " shared sums");
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
