// The update of rows that a gradient names against the scalar reference: what
// its test and its fuzz target share.

#ifndef TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/sparse_update.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"
#include "cc/core/testing/update_state.h"

namespace tf_hsm {

template <typename T, typename Rng>
void CheckSparseUpdate(int64_t rows, int64_t width, int64_t count,
                       UpdateRule rule, const std::string& name, Rng* rng,
                       bool shares_values = false, double decay = 0) {
  using A = Accumulator<T>;
  const auto [store, sum] = RoundingOf<T>();
  State<T> start =
      MakeState<T>(rule, rows, width, Draw<T>(rows * width, 32, rng), {});
  start.decay = decay;
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
  SparseUpdate<T>(UpdateOf(rule, &run), gradient, Serial);
  SparseUpdate<T>(UpdateOf(rule, &reversed), gradient, Reversed);
  Expect(SameState(run, reversed),
         name + ": the order of items changes the bits");

  // Every ISA gives that, in one item.
  std::vector<State<T>> states = {run};
  for (Isa isa : SupportedIsas()) {
    states.push_back(start);
    KernelTableFor<T>(isa).sparse_rows(UpdateOf(rule, &states.back()), gradient,
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
  State<double> want =
      MakeState<double>(rule, rows, width, ToDoubles(start.w), {});
  want.decay = decay;
  ReferenceUpdateRows(touched, totals, {}, width, rule, &want);
  const int64_t of_row = SlotWidth(rule, width);
  for (const State<T>& state : states) {
    NearState(state, want, rule, store + sum * (8 + count),
              sum * (16 + 4 * count + width), name);
    State<T> rest = state;
    for (int64_t r : indices) {
      std::copy_n(start.w.data() + r * width, width, rest.w.data() + r * width);
      for (int s = 0; s < NumSlots(rule); ++s) {
        std::copy_n(start.w_slots[s].data() + r * of_row, of_row,
                    rest.w_slots[s].data() + r * of_row);
      }
    }
    Expect(SameState(rest, start), name + ": other rows change");
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_SPARSE_UPDATE_TEST_SUPPORT_H_
