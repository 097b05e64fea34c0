// CUDA's runtime, as far as the project uses it, on the interpreter. A program
// links this library in the place of cudart; its objects are nvcc's own.
//
// Everything happens at once: streams order nothing here.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cc/cuda/ptx/runtime/context.h"

namespace {

using tf_hsm::ptx::Context;
using tf_hsm::ptx::Grid;

constexpr int kMajor = 9, kMinor = 0;  // of the device; the PTX is for sm_90

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;
thread_local cudaError_t last_error = cudaSuccess;
thread_local std::string last_text;  // of a launch that failed

cudaError_t Launch(const void* host, dim3 grid, dim3 block, void** arguments,
                   size_t shared_bytes) {
  if (block.y * block.z * grid.y * grid.z != 1 || block.x == 0 ||
      block.x > 1024 || grid.x == 0 || grid.x > 0x7fffffff) {
    return last_error = cudaErrorInvalidConfiguration;
  }
  const Grid shape = {grid.x, static_cast<int>(block.x),
                      static_cast<int64_t>(shared_bytes)};
  const std::string error = Context::Get().Launch(host, shape, arguments);
  if (error.empty()) return cudaSuccess;
  last_text = error;
  return last_error = cudaErrorLaunchFailure;
}

// Device memory is memory of the host: bytes that lie in no allocation are
// the host's own.
cudaError_t Copy(void* to, const void* from, size_t bytes,
                 cudaMemcpyKind kind) {
  Context& context = Context::Get();
  const int64_t count = static_cast<int64_t>(bytes);
  const bool to_device =
      kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !context.HasBytes(to, count)) ||
      (from_device && !context.HasBytes(from, count))) {
    return last_error = cudaErrorInvalidValue;
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t Set(void* to, int byte, size_t bytes) {
  if (!Context::Get().HasBytes(to, static_cast<int64_t>(bytes))) {
    return last_error = cudaErrorInvalidValue;
  }
  if (bytes > 0) std::memset(to, byte, bytes);
  return cudaSuccess;
}

}  // namespace

extern "C" {

// --- What nvcc's objects call by themselves ---

void** __cudaRegisterFatBinary(void* fat_binary) {
  return new void*(reinterpret_cast<void*>(
      static_cast<intptr_t>(Context::Get().AddModule(fat_binary))));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) {
  delete reinterpret_cast<void**>(handle);
}
void __cudaRegisterFunction(void** handle, const char* host, char*,
                            const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const int module = static_cast<int>(reinterpret_cast<intptr_t>(*handle));
  Context::Get().AddKernel(module, host, name);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int,
                       int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                       size_t* shared_bytes, void* stream) {
  const Configuration own = configurations.back();
  configurations.pop_back();
  *grid = own.grid;
  *block = own.block;
  *shared_bytes = own.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = own.stream;
  return cudaSuccess;
}
// From CUDA 13 on, a launch goes by the kernel's handle: here the function.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                               void** arguments, size_t shared_bytes,
                               cudaStream_t) {
  return Launch(reinterpret_cast<const void*>(kernel), grid, block, arguments,
                shared_bytes);
}

// --- What the project and CUB call ---

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block,
                             void** arguments, size_t shared_bytes,
                             cudaStream_t) {
  return Launch(host, grid, block, arguments, shared_bytes);
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure
             ? last_text.c_str()
             : "wrong arguments of a call to the interpreter's runtime";
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = Context::Get().limits().processors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = Context::Get().limits().shared_bytes;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = kMajor;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = kMinor;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = 0x7fffffff;
      return cudaSuccess;
    default:
      return last_error = cudaErrorNotSupported;
  }
}
cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute attribute,
                                 int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    Context::Get().AllowSharedBytes(host, value);
  }
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  const void* host) {
  if (!Context::Get().HasKernel(host)) {
    return last_error = cudaErrorInvalidDeviceFunction;
  }
  *attributes = {};
  attributes->ptxVersion = 10 * kMajor + kMinor;
  attributes->binaryVersion = 10 * kMajor + kMinor;
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
// CUB chooses grids by it.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count,
                                                                   const void*,
                                                                   int, size_t,
                                                                   unsigned) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = reinterpret_cast<void*>(
      Context::Get().Allocate(static_cast<int64_t>(bytes)));
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  const bool good = address == nullptr ||
                    Context::Get().Free(reinterpret_cast<uint64_t>(address));
  return good ? cudaSuccess : (last_error = cudaErrorInvalidValue);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  return Copy(to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t) {
  return Copy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* to, int byte, size_t bytes) {
  return Set(to, byte, bytes);
}
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) {
  return Set(to, byte, bytes);
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<char*>(stream);
  return cudaSuccess;
}

}  // extern "C"
