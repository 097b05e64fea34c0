#include "cc/kernels/cpu/pack_inputs.h"

#include "cc/kernels/common/element_types.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {

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

#define TF_HSM_INSTANTIATE(A)                                              \
  template absl::Status PackTensor(OpKernelContext*, const Tensor&,        \
                                   const int64_t*, int64_t, int64_t,       \
                                   const Parallel&, Tensor*, const A**);   \
  template absl::Status PackBags(OpKernelContext*, const Tensor&,          \
                                 const Bags<A>&, int64_t, const Parallel&, \
                                 Tensor*, const A**);
TF_HSM_INSTANTIATE(float)
TF_HSM_INSTANTIATE(double)
#undef TF_HSM_INSTANTIATE

}  // namespace tf_hsm
