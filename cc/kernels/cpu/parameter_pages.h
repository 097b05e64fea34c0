// Huge pages under variables (cc/core/base/huge_pages.h), which are locked.

#ifndef TF_HSM_CC_KERNELS_CPU_PARAMETER_PAGES_H_
#define TF_HSM_CC_KERNELS_CPU_PARAMETER_PAGES_H_

#include <vector>

#include "cc/core/base/huge_pages.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

inline void PreferHugePages(const Tensor& tensor) {
  PreferHugePages(tensor.data(), tensor.TotalBytes());
}

inline void PreferHugePages(const std::vector<Tensor*>& slots) {
  for (const Tensor* slot : slots) PreferHugePages(*slot);
}

// Under the matrices; biases are small.
inline void PreferHugePages(const Parameters& parameters) {
  PreferHugePages(parameters.weights());
  if (parameters.vectors() != nullptr) PreferHugePages(*parameters.vectors());
  PreferHugePages(parameters.weight_slots());
  PreferHugePages(parameters.vector_slots());
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_PARAMETER_PAGES_H_
