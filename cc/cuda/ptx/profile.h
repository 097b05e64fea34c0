// Counts of executed instructions: what a kernel costs that issues one
// instruction of a warp after another.

#ifndef TF_HSM_CC_CUDA_PTX_PROFILE_H_
#define TF_HSM_CC_CUDA_PTX_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/cuda/ptx/machine.h"

namespace tf_hsm {
namespace ptx {

struct KernelProfile {
  const Kernel* kernel;
  int64_t launches;
  int64_t blocks;
};

// Rows of a table: instructions of warps, and how many are of each kind.
std::string KernelTable(const std::vector<KernelProfile>& profiles);

// Lines of the CUDA sources with the most instructions, of each kernel.
std::string LineTable(const std::vector<KernelProfile>& profiles);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_PROFILE_H_
