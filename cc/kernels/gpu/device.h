// What the GPU kernels use of a device: its stream, and copies from and to it.
//
// No CUDA header is needed for it. On a CPU there is no stream, and a copy is
// one of memory: so the kernels run there too, above the emulation of the core.

#ifndef TF_HSM_CC_KERNELS_GPU_DEVICE_H_
#define TF_HSM_CC_KERNELS_GPU_DEVICE_H_

#include <cstdint>

#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {
namespace gpu {

// The context's cudaStream_t, on which all work of its device is in order.
void* StreamOf(OpKernelContext* context);

// Memory that may be given back before the kernels have run: the allocator of a
// device takes it back in the order of its stream.
class DeviceMemory {
 public:
  absl::Status Allocate(OpKernelContext* context, int64_t bytes);

  void* data() const { return tensor_.data(); }

 private:
  Tensor tensor_;
};

// Both return when `to` holds the bytes.
absl::Status CopyToDevice(OpKernelContext* context, const void* from,
                          int64_t bytes, void* to);
absl::Status CopyFromDevice(OpKernelContext* context, const void* from,
                            int64_t bytes, void* to);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_DEVICE_H_
