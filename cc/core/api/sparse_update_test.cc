// The update of rows that a gradient names: every ISA, element type and rule
// against the scalar reference, with rows that repeat;
// the same bits whatever the order in which items run; and the sort that it
// begins with.

#include "cc/core/api/sparse_update.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/radix_sort.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

constexpr Hyperparameters kHyper = {0.125, 0.75, 0.875, 0.01};

template <typename T>
struct State {
  std::vector<T> weights;
  std::vector<Accumulator<T>> slots[2];

  Update<T> Of(UpdateRule rule) {
    Update<T> update;
    update.rule = rule;
    update.hyper = kHyper;
    update.weights = weights.data();
    for (int s = 0; s < 2; ++s) update.weight_slots[s] = slots[s].data();
    return update;
  }
};

template <typename T>
void Check(int64_t rows, int64_t width, int64_t count, UpdateRule rule,
           double store, double sum, const std::string& name,
           std::mt19937* rng) {
  using A = Accumulator<T>;
  State<T> start;
  start.weights = Draw<T>(rows * width, 32, rng);
  const bool of_rows = TraitsOf(rule).slots_per_row;
  for (int s = 0; s < NumSlots(rule); ++s) {
    start.slots[s].assign(rows * (of_rows ? 1 : width), A(0.5));
  }
  const std::vector<A> values = Draw<A>(count * width, 64, rng);
  std::vector<int64_t> indices(count);
  for (int64_t& i : indices) {
    i = (*rng)() % 3 == 0 ? rows / 2 : (*rng)() % rows;
  }
  const std::vector<KeyAndIndex> sorted = SortRows(indices.data(), count);
  const SparseGradient<T> gradient = {sorted.data(), values.data(), count,
                                      width};
  State<T> run = start, reversed = start;
  SparseUpdate<T>(run.Of(rule), gradient, Serial);
  SparseUpdate<T>(reversed.Of(rule), gradient, Reversed);
  Expect(SameBits(run.weights, reversed.weights) &&
             SameBits(run.slots[0], reversed.slots[0]) &&
             SameBits(run.slots[1], reversed.slots[1]),
         name + ": the order of items changes the bits");

  // Every ISA gives that, in one item.
  std::vector<State<T>> states = {run};
  for (Isa isa : SupportedIsas()) {
    states.push_back(start);
    KernelTableFor<T>(isa).sparse_rows(states.back().Of(rule), gradient,
                                       sorted.data(), sorted.data() + count);
  }

  std::vector<double> totals(rows * width);
  std::vector<bool> touched(rows);
  for (int64_t i = 0; i < count; ++i) {
    touched[indices[i]] = true;
    for (int64_t d = 0; d < width; ++d) {
      totals[indices[i] * width + d] += ToDouble(values[i * width + d]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    double mean_square = 0;
    for (int64_t d = 0; d < width; ++d) {
      mean_square += totals[r * width + d] * totals[r * width + d] / width;
    }
    for (int64_t d = 0; d < width; ++d) {
      const int64_t at = r * width + d;
      double want = ToDouble(start.weights[at]);
      double slots[2] = {0.5, 0.5};
      if (touched[r]) {
        want =
            ReferenceUpdate(rule, kHyper, totals[at], mean_square, want, slots);
      }
      for (const State<T>& state : states) {
        Near(ToDouble(state.weights[at]), want,
             touched[r] ? store + sum * (8 + count) : 0, name + " weights");
        for (int s = 0; s < NumSlots(rule); ++s) {
          Near(state.slots[s][of_rows ? r : at], slots[s],
               touched[r] ? sum * (16 + 4 * count + width) : 0,
               name + " slots");
        }
      }
    }
  }
}

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
                              {4, 5, 0}};
  const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
  for (const auto& c : cases) {
    for (const RuleTraits& traits : kUpdateRules) {
      const UpdateRule rule = traits.rule;
      auto check = [&](auto zero, double store, double sum, const char* type) {
        Check<decltype(zero)>(c[0], c[1], c[2], rule, store, sum,
                              std::string(type) + " rule " +
                                  std::to_string(static_cast<int>(rule)) +
                                  " rows " + std::to_string(c[0]),
                              &rng);
      };
      check(double(), f64, f64, "double");
      check(float(), f32, f32, "float");
      check(bfloat16(), std::ldexp(1.0, -8), f32, "bfloat16");
      check(half(), std::ldexp(1.0, -11), f32, "half");
    }
  }
  return Summarize();
}
