// Global memory: allocations at addresses of the host.

#ifndef TF_HSM_CC_CUDA_PTX_MEMORY_H_
#define TF_HSM_CC_CUDA_PTX_MEMORY_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "cc/cuda/ptx/races.h"

namespace tf_hsm {
namespace ptx {

struct Allocation {
  uint64_t begin = 0;
  int64_t bytes = 0;
  Races races;  // made by the first access that is watched
};

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  ~Memory() {
    while (!allocations_.empty()) Free(allocations_.begin()->first);
  }

  // Aligned to 256 bytes, as CUDA's.
  uint64_t Allocate(int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    void* block =
        std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    const uint64_t begin = reinterpret_cast<uint64_t>(block);
    allocations_[begin] = {begin, bytes, {}};
    return begin;
  }

  // Returns false where there is no allocation.
  bool Free(uint64_t begin) {
    last_ = nullptr;
    if (allocations_.erase(begin) == 0) return false;
    std::free(reinterpret_cast<void*>(begin));
    return true;
  }

  // The allocation that has all of these bytes, or null.
  Allocation* Find(uint64_t address, int64_t bytes) {
    if (last_ == nullptr || !Has(*last_, address, bytes)) {
      auto after = allocations_.upper_bound(address);
      if (after == allocations_.begin()) return nullptr;
      last_ = &std::prev(after)->second;
    }
    return Has(*last_, address, bytes) ? last_ : nullptr;
  }

 private:
  static bool Has(const Allocation& a, uint64_t address, int64_t bytes) {
    return address >= a.begin && address + static_cast<uint64_t>(bytes) <=
                                     a.begin + static_cast<uint64_t>(a.bytes);
  }

  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_ = nullptr;  // that was found
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_MEMORY_H_
