// The hot loops, compiled once per ISA.

#include "cc/core/table/kernels.h"

#include "cc/core/groups/backward_rows-inl.h"
#include "cc/core/groups/forward_group-inl.h"
#include "cc/core/groups/log_softmax-inl.h"
#include "cc/core/groups/small/small_groups-inl.h"
#include "cc/core/update/sparse_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
namespace {

template <typename T>
const Kernels<T>& Table() {
  static constexpr Kernels<T> table = {
      ForwardGroup<T>,      kForwardExamples,   SmallGroups<T>,
      BackwardRows<T>,      kBackwardRowStep,   LogSoftmax<T>,
      Exps<Accumulator<T>>, AddExpectations<T>, SparseRows<T>,
  };
  return table;
}

}  // namespace

#define TF_HSM_TABLE(T, name) \
  const Kernels<T>& name() { return Table<T>(); }
TF_HSM_TABLE(float, FloatKernels)
TF_HSM_TABLE(bfloat16, Bfloat16Kernels)
// Tiles do nothing for the others.
#if !defined(__AMX_BF16__)
TF_HSM_TABLE(double, DoubleKernels)
TF_HSM_TABLE(half, HalfKernels)
#endif
#undef TF_HSM_TABLE

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
