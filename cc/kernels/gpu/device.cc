#include "cc/kernels/gpu/device.h"

#include <cstring>

#include "tensorflow/core/framework/device_base.h"
#include "xla/stream_executor/event.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace tf_hsm::gpu {
namespace {

using stream_executor::DeviceAddressBase;
using stream_executor::Stream;

// Null on a CPU.
Stream* FindStream(OpKernelContext* context) {
  tensorflow::DeviceContext* device = context->op_device_context();
  return device == nullptr ? nullptr : device->stream();
}

}  // namespace

absl::Status CheckStream([[maybe_unused]] OpKernelContext* context) {
#ifndef TF_HSM_EMULATED
  if (FindStream(context) == nullptr) {
    return absl::InternalError("this GPU device gives its kernels no stream");
  }
#endif
  return absl::OkStatus();
}

const void* DeviceOf(OpKernelContext* context) { return FindStream(context); }

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

StreamMoment::StreamMoment() = default;
StreamMoment::~StreamMoment() = default;

absl::Status StreamMoment::Record(OpKernelContext* context) {
  Stream* stream = FindStream(context);
  if (stream == nullptr) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(event_, stream->parent()->CreateEvent());
  return stream->RecordEvent(event_.get());
}

absl::Status StreamMoment::CopyFromDevice(OpKernelContext* context,
                                          const void* from, int64_t bytes,
                                          void* to) const {
  if (event_ == nullptr) return gpu::CopyFromDevice(context, from, bytes, to);
  TF_RETURN_IF_ERROR(event_->Synchronize());
  // Not in the order of the stream, which does not wait for the legacy one.
  const DeviceAddressBase address(const_cast<void*>(from), bytes);
  return FindStream(context)->parent()->SynchronousMemcpy(to, address, bytes);
}

}  // namespace tf_hsm::gpu
