#include "cc/kernels/gpu/device.h"

#include <cstring>

#include "tensorflow/core/framework/device_base.h"
#include "xla/stream_executor/stream.h"

namespace tf_hsm {
namespace gpu {
namespace {

using stream_executor::DeviceAddressBase;
using stream_executor::Stream;

// Null on a CPU.
Stream* FindStream(OpKernelContext* context) {
  tensorflow::DeviceContext* device = context->op_device_context();
  return device == nullptr ? nullptr : device->stream();
}

}  // namespace

void* StreamOf(OpKernelContext* context) {
  Stream* stream = FindStream(context);
  return stream == nullptr ? nullptr
                           : stream->platform_specific_handle().stream;
}

absl::Status DeviceMemory::Allocate(OpKernelContext* context, int64_t bytes) {
  return context->allocate_temp(tensorflow::DT_UINT8, TensorShape({bytes}),
                                &tensor_);
}

absl::Status CopyToDevice(OpKernelContext* context, const void* from,
                          int64_t bytes, void* to) {
  if (bytes == 0) return absl::OkStatus();
  if (Stream* stream = FindStream(context)) {
    DeviceAddressBase address(to, bytes);
    TF_RETURN_IF_ERROR(stream->Memcpy(&address, from, bytes));
    return stream->BlockHostUntilDone();
  }
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status CopyFromDevice(OpKernelContext* context, const void* from,
                            int64_t bytes, void* to) {
  if (bytes == 0) return absl::OkStatus();
  if (Stream* stream = FindStream(context)) {
    const DeviceAddressBase address(const_cast<void*>(from), bytes);
    TF_RETURN_IF_ERROR(stream->Memcpy(to, address, bytes));
    return stream->BlockHostUntilDone();
  }
  std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

}  // namespace gpu
}  // namespace tf_hsm
