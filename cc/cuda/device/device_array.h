// Arrays in device memory, for the programs that check and time the kernels.

#ifndef TF_HSM_CC_CUDA_DEVICE_DEVICE_ARRAY_H_
#define TF_HSM_CC_CUDA_DEVICE_DEVICE_ARRAY_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

#ifdef __CUDACC__
inline void CheckCuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}
#endif

// Device memory that nobody has allocated.
inline int64_t FreeBytes() {
#ifdef __CUDACC__
  size_t free = 0, all = 0;
  CheckCuda(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return static_cast<int64_t>(free);
#else
  return std::numeric_limits<int64_t>::max();
#endif
}

// Allocations around which something was written.
inline int num_overruns = 0;

// Waits for all streams.
inline void WaitForDevice() {
#ifdef __CUDACC__
  CheckCuda(cudaDeviceSynchronize(), "a kernel");
#endif
}

// A stream that does not wait for the default one, nor that for it.
class DeviceStream {
 public:
  DeviceStream() {
#ifdef __CUDACC__
    cudaStream_t stream;
    CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
              "cudaStreamCreate");
    handle_ = stream;
#else
    handle_ = this;
#endif
  }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  ~DeviceStream() {
#ifdef __CUDACC__
    cudaStreamDestroy(static_cast<cudaStream_t>(handle_));
#endif
  }

  // What entry points take. From here on the emulation expects this thread of
  // the host to use no other.
  void* Use() const {
#ifndef __CUDACC__
    emulate::expected_stream = handle_;
#endif
    return handle_;
  }

 private:
  void* handle_ = nullptr;
};

// An allocation of its own, aligned to 256 bytes, between guards: bytes that
// must not change.
class DeviceBlock {
 public:
  explicit DeviceBlock(int64_t bytes) : bytes_(bytes > 0 ? bytes : 0) {
#ifdef __CUDACC__
    CheckCuda(cudaMalloc(&base_, bytes_ + 2 * kGuard), "cudaMalloc");
    CheckCuda(cudaMemset(base_, 0xff, bytes_ + 2 * kGuard), "cudaMemset");
    WaitForDevice();
#else
    base_ = std::aligned_alloc(kGuard, (bytes_ / kGuard + 3) * kGuard);
    std::memset(base_, 0xff, bytes_ + 2 * kGuard);
#endif
    data_ = static_cast<char*>(base_) + kGuard;
  }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock() {
    const bool whole = IsGuard(base_) && IsGuard(data_ + bytes_);
    if (!whole) ++num_overruns;
#ifdef __CUDACC__
    cudaFree(base_);
#else
    std::free(base_);
#endif
  }

  // Is there for all streams, as what is uploaded.
  // 0xff: floating-point numbers become NaN, integers -1.
  void Fill(int byte) {
#ifdef __CUDACC__
    CheckCuda(cudaMemset(data_, byte, bytes_), "cudaMemset");
    WaitForDevice();
#else
    std::memset(data_, byte, bytes_);
#endif
  }

  void Upload(const void* from) {
#ifdef __CUDACC__
    CheckCuda(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice),
              "cudaMemcpy");
    WaitForDevice();
#else
    if (bytes_ > 0) std::memcpy(data_, from, bytes_);
#endif
  }

  // Waits for what was launched.
  static void Download(const void* from, int64_t bytes, void* to) {
    WaitForDevice();
#ifdef __CUDACC__
    CheckCuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a kernel");
#else
    if (bytes > 0) std::memcpy(to, from, bytes);
#endif
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kGuard = 256;

  static bool IsGuard(const void* from) {
    unsigned char guard[kGuard];
    Download(from, kGuard, guard);
    for (unsigned char byte : guard) {
      if (byte != 0xff) return false;
    }
    return true;
  }

  void* base_ = nullptr;
  char* data_ = nullptr;
  size_t bytes_;
};

template <typename V>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) : block_(count * sizeof(V)) {}
  explicit DeviceArray(const std::vector<V>& values)
      : DeviceArray(static_cast<int64_t>(values.size())) {
    block_.Upload(values.data());
  }
  void Poison() { block_.Fill(0xff); }
  V* data() const { return static_cast<V*>(block_.data()); }
  std::vector<V> Download() const {
    std::vector<V> values(block_.bytes() / sizeof(V));
    DeviceBlock::Download(block_.data(), block_.bytes(), values.data());
    return values;
  }

 private:
  DeviceBlock block_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_DEVICE_ARRAY_H_
