// The inputs of an op as the core reads them.

#ifndef TF_HSM_CC_KERNELS_CPU_PACK_INPUTS_H_
#define TF_HSM_CC_KERNELS_CPU_PACK_INPUTS_H_

#include <cstdint>

#include "cc/core/api/inputs.h"
#include "cc/core/base/parallel.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {

// PackInputs (cc/core/api/inputs.h) of `inputs`, [..., width] of any element
// type. `x` lives as long as `packed`.
template <typename A>
absl::Status PackTensor(OpKernelContext* context, const Tensor& inputs,
                        const int64_t* order, int64_t count, int64_t width,
                        const Parallel& parallel, Tensor* packed, const A** x) {
  A* to;
  TF_RETURN_IF_ERROR(
      AllocateTemp(context, TensorShape({count, Padded(width)}), packed, &to));
  ForElementType(inputs.dtype(), [&](auto element) {
    PackInputs(order, count, Data<decltype(element)>(inputs), width, parallel,
               to);
  });
  *x = to;
  return absl::OkStatus();
}

// PackSums of the rows of `table`, likewise.
template <typename A>
absl::Status PackBags(OpKernelContext* context, const Tensor& table,
                      const Bags<A>& bags, int64_t width,
                      const Parallel& parallel, Tensor* packed, const A** x) {
  A* to;
  TF_RETURN_IF_ERROR(AllocateTemp(
      context, TensorShape({bags.num_examples(), Padded(width)}), packed, &to));
  ForElementType(table.dtype(), [&](auto element) {
    PackSums(bags, Data<decltype(element)>(table), width, parallel, to);
  });
  *x = to;
  return absl::OkStatus();
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_PACK_INPUTS_H_
