// The hot loops, compiled once per ISA.

#include "cc/core/table/kernel_table.h"

#include "cc/core/groups/backward_rows-inl.h"
#include "cc/core/groups/forward_group-inl.h"
#include "cc/core/groups/log_softmax-inl.h"
#include "cc/core/groups/sigmoid-inl.h"
#include "cc/core/groups/small/small_groups-inl.h"
#include "cc/core/update/sparse_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
// Tiles (AMX) multiply bfloat16 numbers, of which floats are sums: these types
// have kernels on tiles. The others have the table of the same vectors without.
template <typename T>
constexpr bool kHasTiles = false;
template <>
constexpr bool kHasTiles<float> = true;
template <>
constexpr bool kHasTiles<bfloat16> = true;

template <typename T>
void ReserveStep(int64_t examples, int64_t width) {
  auto most = [&](int64_t count) {
    return examples < count ? examples : count;
  };
  ReserveForward<T>(most(kForwardExamples), width);
  ReserveBackward<T>(examples, width);
  ReserveSmall<T>(most(kBlockExamples), width);
}

template <typename T>
const KernelTable<T>& Table() {
#if defined(__AMX_BF16__)
  if constexpr (!kHasTiles<T>) {
    return avx512::Table<T>();
  } else  // NOLINT(readability/braces)
#endif
  {
    static constexpr KernelTable<T> table = {
        ForwardGroup<T>, kForwardExamples,     SmallGroups<T>,
        BackwardRows<T>, ReserveStep<T>,       kBackwardRowStep,
        LogSoftmax<T>,   Exps<Accumulator<T>>, AddExpectations<T>,
        LabelLosses<T>,  SparseRows<T>,        ReserveRows<T>,
    };
    return table;
  }
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(Table, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
