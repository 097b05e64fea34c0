// A block of memory in parts.

#ifndef TF_HSM_CC_CUDA_DEVICE_ARENA_H_
#define TF_HSM_CC_CUDA_DEVICE_ARENA_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

// Hands out parts of a block of memory, each aligned to 256 bytes; from null,
// only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  template <typename V>
  void Take(int64_t count, V** part) {
    *part = base_ == nullptr ? nullptr : reinterpret_cast<V*>(base_ + bytes_);
    bytes_ += RoundUp(Larger<int64_t>(count, 1) * sizeof(V), 256);
  }
  void Take(int64_t bytes, void** part) {
    Take(bytes, reinterpret_cast<char**>(part));
  }
  int64_t bytes() const { return bytes_; }
  // Starts again for something else that is not there at the same time.
  void Rewind() { bytes_ = 0; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_ARENA_H_
