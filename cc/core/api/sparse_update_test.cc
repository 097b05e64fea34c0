// The update of rows that a gradient names: every ISA, element type and rule
// against the scalar reference, with rows that repeat; the same bits whatever
// the order in which items run; and the sort that it begins with.

#include "cc/core/api/sparse_update.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/sparse_update_test_support.h"
#include "cc/core/base/radix_sort.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

void CheckSort(std::mt19937_64* rng) {
  for (int64_t range : {int64_t{1}, int64_t{5}, int64_t{1} << 20, INT64_MAX}) {
    for (size_t count : {0, 1, 2, 1000}) {
      std::vector<KeyAndIndex> items(count);
      for (size_t i = 0; i < count; ++i) {
        const int64_t key = static_cast<int64_t>((*rng)() >> 1) % range;
        items[i] = {(*rng)() % 2 == 0 ? key : -key - 1,
                    static_cast<int64_t>(i)};
      }
      if (count > 2 && range == INT64_MAX) {
        items[1].key = INT64_MIN, items[2].key = INT64_MAX;
      }
      std::vector<KeyAndIndex> want = items;
      std::stable_sort(want.begin(), want.end(),
                       [](const KeyAndIndex& a, const KeyAndIndex& b) {
                         return a.key < b.key;
                       });
      SortByKey(&items);
      for (size_t i = 0; i < count; ++i) {
        Expect(items[i].key == want[i].key && items[i].index == want[i].index,
               "sort at " + std::to_string(i));
      }
    }
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  std::mt19937_64 wide(1);
  CheckSort(&wide);
  const int64_t cases[][3] = {{1, 1, 1},     {5, 17, 9},   {40, 33, 300},
                              {3000, 1, 70}, {9, 300, 50}, {70, 100, 2000},
                              {4, 5, 0},     {4, 0, 9}};
  ForEachType([&](auto zero, const std::string& type) {
    for (const auto& c : cases) {
      for (const RuleTraits& traits : kUpdateRules) {
        const std::string name =
            type + " " + traits.name + " rows " + std::to_string(c[0]);
        for (bool shares_values : {false, true}) {
          CheckSparseUpdate<decltype(zero)>(c[0], c[1], c[2], traits.rule, name,
                                            &rng, shares_values,
                                            shares_values ? 0.25 : 0);
        }
      }
    }
  });
  return Summarize();
}
