// The hot loops, compiled once per ISA.

#include "cc/core/table/kernel_table.h"

#include "cc/core/groups/backward_rows-inl.h"
#include "cc/core/groups/forward_group-inl.h"
#include "cc/core/groups/log_softmax-inl.h"
#include "cc/core/groups/small/small_groups-inl.h"
#include "cc/core/update/sparse_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
// Whether this ISA has a table of its own for T. Tiles (AMX) multiply bfloat16
// numbers, of which floats are sums; the other types have the vectors' table.
#if defined(__AMX_BF16__)
template <typename T>
constexpr bool kHasTable = false;
template <>
constexpr bool kHasTable<float> = true;
template <>
constexpr bool kHasTable<bfloat16> = true;
#else
template <typename T>
constexpr bool kHasTable = true;
#endif

template <typename T>
const KernelTable<T>& Table() {
  if constexpr (kHasTable<T>) {
    static constexpr KernelTable<T> table = {
        ForwardGroup<T>,      kForwardExamples,   SmallGroups<T>,
        BackwardRows<T>,      kBackwardRowStep,   LogSoftmax<T>,
        Exps<Accumulator<T>>, AddExpectations<T>, SparseRows<T>,
    };
    return table;
  } else {
    return avx512::Table<T>();
  }
}

#define TF_HSM_INSTANTIATE(T, ...) template const KernelTable<T>& Table();
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)
#undef TF_HSM_INSTANTIATE

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
