// Where the op kernels of this folder run, and what they read on the host.

#ifndef TF_HSM_CC_KERNELS_GPU_REGISTER_H_
#define TF_HSM_CC_KERNELS_GPU_REGISTER_H_

#include <vector>

#include "cc/kernels/common/register.h"

namespace tf_hsm::gpu {

// A GPU; under TF_HSM_EMULATED the CPU, with a label that the tests ask for.
#ifdef TF_HSM_EMULATED
const KernelDevice kGpu = {tensorflow::DEVICE_CPU, "tf_hsm_emulated"};
#else
const KernelDevice kGpu = {tensorflow::DEVICE_GPU, ""};
#endif

// The arrays of a tree stay in host memory: see device_tree.h. These are those
// of an op on a batch of labels, and of an op that goes down the tree; `more`
// are inputs of the op's own that stay there too.
inline std::vector<const char*> LossHostMemory(
    std::vector<const char*> more = {}) {
  more.insert(more.end(), {"group_offsets", "group_parents", "class_rows",
                           "row_groups", "class_ranks"});
  return more;
}
inline std::vector<const char*> InferenceHostMemory(
    std::vector<const char*> more = {}) {
  more.insert(more.end(), {"group_offsets", "row_below", "root_groups"});
  return more;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_REGISTER_H_
