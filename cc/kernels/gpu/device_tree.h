// Trees and forests in device memory, copied there once each.
//
// The ops get a tree's arrays in host memory, where TensorFlow passes them on
// by reference, the same buffers in each call. A device keeps a copy of each
// set of buffers that it has seen, until nobody else refers to the host's. It
// refers to them itself meanwhile: no other tree comes to lie at the same
// address, and nobody writes to them.
//
// Arrays that contradict each other are refused when the copy is made, in
// O(tree) work, as is the copy: the kernels only ever see trees.

#ifndef TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_
#define TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_

#include <memory>
#include <vector>

#include "cc/core/tree/tree_view.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"
#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {
namespace gpu {

struct DeviceTree {
  TreeView view;  // of device memory
  TreeShape shape;
  Levels levels;  // with row_below only
  Tensor arrays;  // where the tree lies
  Tensor places;  // and where they do
  std::vector<Tensor> host_arrays;
};

// Finds or makes the copy of the op's tree. `host` is what Arguments::Read has
// made of it, or InferenceArguments::Read: of the arrays group_offsets,
// row_below and root_groups all others are made, and not read even where the op
// has them.
absl::Status FindDeviceTree(OpKernelContext* context, const TreeView& host,
                            std::shared_ptr<const DeviceTree>* tree);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_
