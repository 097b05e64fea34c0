// Memory on pages of a chosen size, and random numbers in it.

#ifndef TF_HSM_BENCHMARKS_CORE_MEMORY_H_
#define TF_HSM_BENCHMARKS_CORE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// Bytes from the system, zero, aligned to a huge page; touched pages count.
// Ends the process where there are none.
class Memory {
 public:
  Memory(size_t bytes, bool huge_pages);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <typename S>
  S* data() const {
    return static_cast<S*>(data_);
  }

  // How much of what was touched is on huge pages; the system may refuse them.
  double HugeShare() const;

 private:
  void* mapped_;
  size_t mapped_bytes_;
  void* data_;
};

// Bytes that can be had without swapping; 0 where the system does not tell.
size_t AvailableBytes();

// Fills `count` numbers of type T with magnitudes in [1/32, 1/16), sign and
// mantissa at random; the same for any number of threads.
template <typename T>
void FillRandom(T* numbers, int64_t count, uint64_t seed,
                const Parallel& parallel);

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_MEMORY_H_
