// What the GPU kernels use of a device: its stream, and copies from and to it.
//
// No CUDA header is needed for it. On a CPU there is no stream, and a copy is
// one of memory: so the kernels run there too, above the emulation of the core.

#ifndef TF_HSM_CC_KERNELS_GPU_DEVICE_H_
#define TF_HSM_CC_KERNELS_GPU_DEVICE_H_

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace gpu {

// The context's cudaStream_t, on which all work of its device is in order.
void* StreamOf(tensorflow::OpKernelContext* context);

// Memory that may be given back before the kernels have run: the allocator of a
// device takes it back in the order of its stream.
absl::Status AllocateBytes(tensorflow::OpKernelContext* context, int64_t bytes,
                           tensorflow::Tensor* tensor, void** data);

// Both return when `to` holds the bytes.
absl::Status CopyToDevice(tensorflow::OpKernelContext* context,
                          const void* from, int64_t bytes, void* to);
absl::Status CopyFromDevice(tensorflow::OpKernelContext* context,
                            const void* from, int64_t bytes, void* to);

// What a function of the core has returned.
absl::Status StatusOf(const std::string& error);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_DEVICE_H_
