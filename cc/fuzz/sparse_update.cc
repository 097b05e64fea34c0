// What a step does with the rows of a table: the sums of bags of them, and the
// updates of those that a gradient names, every rule, against the scalar
// reference; and with numbers of any bits.

#include "cc/core/api/inputs_test_support.h"
#include "cc/core/api/sparse_update_test_support.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {
namespace {

// Nothing is known of the result but that it is the same in any order.
template <typename T>
void FuzzSpecial(int64_t rows, int64_t width, int64_t count, UpdateRule rule,
                 Isa isa, Bytes* bytes) {
  using A = Accumulator<T>;
  State<T> state =
      MakeState<T>(rule, rows, width, Draw<T>(rows * width, 32, bytes), {});
  for (int s = 0; s < NumSlots(rule); ++s) {
    MakeSpecial(bytes, &state.w_slots[s]);
  }
  MakeSpecial(bytes, &state.w);
  std::vector<A> values = Draw<A>(count * width, 64, bytes);
  MakeSpecial(bytes, &values);
  std::vector<int64_t> indices(count);
  for (int64_t& i : indices) i = (*bytes)() % rows;
  const std::vector<KeyAndIndex> sorted = SortRows(indices.data(), count);
  const SparseGradient<T> gradient = {sorted.data(), values.data(), count,
                                      width};
  Update<T> update = UpdateOf(rule, &state);
  DrawNumbers(bytes, &update);
  update.stochastic = bytes->Coin();
  update.seed = bytes->Any();
  KernelTableFor<T>(isa).sparse_rows(update, gradient, sorted.data(),
                                     sorted.data() + count);
}

}  // namespace

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    using T = decltype(zero);
    const UpdateRule rule = DrawRule(bytes);
    const int64_t rows = bytes->In(1, 40), width = bytes->In(0, 140);
    const int64_t count = bytes->In(0, 60);
    if (bytes->Coin()) {
      FuzzSpecial<T>(rows, width, count, rule, isa, bytes);
    } else {
      CheckSparseUpdate<T>(rows, width, count, rule,
                           std::string(IsaName(isa)) + " sparse", bytes,
                           bytes->Coin());
    }
    if (bytes->In(0, 3) == 0) {
      CheckSums<T>(count, bytes->In(0, 9), rows, width, "bags", bytes);
    }
  });
}

}  // namespace tf_hsm
