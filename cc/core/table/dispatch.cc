#include "cc/core/table/kernels.h"

namespace tf_hsm {

#define TF_HSM_DECLARE(isa)                   \
  namespace isa {                             \
  const Kernels<float>& FloatKernels();       \
  const Kernels<double>& DoubleKernels();     \
  const Kernels<bfloat16>& Bfloat16Kernels(); \
  const Kernels<half>& HalfKernels();         \
  }

TF_HSM_DECLARE(baseline)
#if defined(__x86_64__)
TF_HSM_DECLARE(avx2)
TF_HSM_DECLARE(avx512)
TF_HSM_DECLARE(amx)
#define TF_HSM_CHOOSE(name)    \
  switch (isa) {               \
    case Isa::kAmx:            \
    case Isa::kAvx512:         \
      return avx512::name();   \
    case Isa::kAvx2:           \
      return avx2::name();     \
    default:                   \
      return baseline::name(); \
  }
#else
#define TF_HSM_CHOOSE(name) \
  (void)isa;                \
  return baseline::name()
#endif

template <>
const Kernels<float>& KernelsFor(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return amx::FloatKernels();
#endif
  TF_HSM_CHOOSE(FloatKernels);
}
template <>
const Kernels<double>& KernelsFor(Isa isa) {
  TF_HSM_CHOOSE(DoubleKernels);
}
template <>
const Kernels<bfloat16>& KernelsFor(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAmx) return amx::Bfloat16Kernels();
#endif
  TF_HSM_CHOOSE(Bfloat16Kernels);
}
template <>
const Kernels<half>& KernelsFor(Isa isa) {
  TF_HSM_CHOOSE(HalfKernels);
}

}  // namespace tf_hsm
