#include "cc/core/clustering/point_kernels.h"

namespace tf_hsm {

const PointKernels& PointKernelsFor(Isa isa) {
#define TF_HSM_CASE(enumerator, name) \
  case Isa::enumerator:               \
    return name::point_kernels;
  switch (isa) { TF_HSM_ISAS(TF_HSM_CASE) }
#undef TF_HSM_CASE
  __builtin_unreachable();
}

}  // namespace tf_hsm
