// What the GPU kernels use of a device: its stream, and copies from and to it.
//
// No CUDA header is needed for it. On a CPU there is no stream, and a copy is
// one of memory: so the kernels run there too, above the emulation of the core.

#ifndef TF_HSM_CC_KERNELS_GPU_DEVICE_H_
#define TF_HSM_CC_KERNELS_GPU_DEVICE_H_

#include <cstdint>
#include <memory>

#include "cc/kernels/common/op_kernel.h"

namespace stream_executor {
class Event;
}  // namespace stream_executor

namespace tf_hsm::gpu {

// Internal error on a GPU whose device context has no stream, as TensorFlow's
// plug-in devices may have it: the kernels launch nothing there.
absl::Status CheckStream(OpKernelContext* context);

// What tells one GPU device of TensorFlow from another. Two may share a GPU,
// but no stream.
const void* DeviceOf(OpKernelContext* context);

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

// A moment of a context's stream: all work that the stream had when `Record`
// was called comes before it.
class StreamMoment {
 public:
  StreamMoment();
  ~StreamMoment();  // the device need not have reached the moment

  // Makes this the present moment of the stream.
  absl::Status Record(OpKernelContext* context);

  // As CopyFromDevice, but waits only for the work before this moment.
  absl::Status CopyFromDevice(OpKernelContext* context, const void* from,
                              int64_t bytes, void* to) const;

 private:
  std::unique_ptr<stream_executor::Event> event_;  // null on a CPU
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_DEVICE_H_
