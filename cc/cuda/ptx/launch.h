// A device, and launches of kernels on it.

#ifndef TF_HSM_CC_CUDA_PTX_LAUNCH_H_
#define TF_HSM_CC_CUDA_PTX_LAUNCH_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/ptx/findings.h"
#include "cc/cuda/ptx/machine.h"
#include "cc/cuda/ptx/memory.h"

namespace tf_hsm {
namespace ptx {

using Rng = std::mt19937_64;

struct Device {
  Memory memory;
  Findings findings;
  Rng rng;                // of the orders of blocks and warps
  bool profiles = false;  // counts the executions of every instruction
  bool finds_races = true;
  uint32_t epoch = 1;  // barriers of all blocks so far; see Moment
};

struct Grid {
  int64_t blocks = 1;
  int threads = 1;
  int64_t dynamic_shared_bytes = 0;
};

// Bytes of shared memory that a block of the kernel has.
inline int64_t SharedBytes(const Entry& entry, int64_t dynamic_bytes) {
  return (entry.shared.end + 15) / 16 * 16 + dynamic_bytes;
}

// Runs a kernel. Errors become findings; returns the one that ended the launch,
// or nothing.
std::string Launch(Kernel* kernel, const Grid& grid,
                   const std::vector<char>& parameters, Device* device);

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_LAUNCH_H_
