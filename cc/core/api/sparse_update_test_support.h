// The update of rows that a gradient names against the scalar reference: what
// its test and its fuzz target share.

#ifndef TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/sparse_update.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

constexpr Hyperparameters kHyper = {0.125, 0.75, 0.875, 0.01};

template <typename T>
struct State {
  std::vector<T> weights;
  std::vector<Accumulator<T>> slots[kMaxSlots];
  double decay = 0;

  Update<T> Of(UpdateRule rule) {
    Update<T> update;
    update.rule = rule;
    update.hyper = kHyper;
    update.weights = weights.data();
    update.decay = decay;
    for (int s = 0; s < NumSlots(rule); ++s) {
      update.weight_slots[s] = slots[s].data();
    }
    return update;
  }
};

template <typename T, typename Rng>
void CheckSparseUpdate(int64_t rows, int64_t width, int64_t count,
                       UpdateRule rule, double store, double sum,
                       const std::string& name, Rng* rng,
                       bool shares_values = false, double decay = 0) {
  using A = Accumulator<T>;
  State<T> start;
  start.decay = decay;
  start.weights = Draw<T>(rows * width, 32, rng);
  const bool of_rows = TraitsOf(rule).slots_per_row;
  for (int s = 0; s < NumSlots(rule); ++s) {
    start.slots[s].assign(rows * (of_rows ? 1 : width), A(0.5));
  }
  const int64_t stride = shares_values ? Padded(width) : width;
  const std::vector<A> values = Draw<A>(count * stride, 64, rng);
  std::vector<int64_t> indices(count);
  for (int64_t& i : indices) {
    i = (*rng)() % 3 == 0 ? rows / 2 : (*rng)() % rows;
  }
  const std::vector<KeyAndIndex> sorted = SortRows(indices.data(), count);
  SparseGradient<T> gradient = {sorted.data(), values.data(), count, width};
  std::vector<int64_t> places(count);
  std::vector<A> factors(count, 1);
  for (int64_t i = 0; i < count; ++i) places[i] = i;
  if (shares_values) {
    for (int64_t& place : places) place = (*rng)() % count;
    for (A& factor : factors)
      factor = (static_cast<int>((*rng)() % 9) - 4) / A(4);
    gradient.places = places.data();
    gradient.factors = factors.data();
    gradient.stride = stride;
  }
  State<T> run = start, reversed = start;
  SparseUpdate<T>(run.Of(rule), gradient, Serial);
  SparseUpdate<T>(reversed.Of(rule), gradient, Reversed);
  bool same = SameBits(run.weights, reversed.weights);
  for (int s = 0; s < kMaxSlots; ++s) {
    same = same && SameBits(run.slots[s], reversed.slots[s]);
  }
  Expect(same, name + ": the order of items changes the bits");

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
      totals[indices[i] * width + d] +=
          ToDouble(factors[i]) * ToDouble(values[places[i] * stride + d]);
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
      double slots[kMaxSlots] = {0.5, 0.5, 0.5};
      if (touched[r]) {
        want = ReferenceUpdate(rule, kHyper, totals[at], mean_square, want,
                               slots, decay);
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

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_
