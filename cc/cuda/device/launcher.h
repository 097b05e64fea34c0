// Launches of kernels whose blocks share out any number of pieces of work.

#ifndef TF_HSM_CC_CUDA_DEVICE_LAUNCHER_H_
#define TF_HSM_CC_CUDA_DEVICE_LAUNCHER_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

// Launches a kernel with a thread for each of `count` numbers.
template <typename... Parameters, typename... Arguments>
void LaunchEach(void (*kernel)(Parameters...), int64_t count, void* stream,
                Arguments... arguments) {
  Launch(kernel, CeilDivide(count, kBlockThreads), kBlockThreads, 0, stream,
         arguments...);
}

// The current device, and the stream that an entry point launches kernels on.
struct Launcher {
  explicit Launcher(void* on_stream) : stream(on_stream) {}

  // Blocks that keep the device busy, of `count` independent ones.
  int64_t Grid(int64_t count) const {
    return Smaller<int64_t>(count, int64_t{device.num_processors} * 8);
  }

  // Warps of a block that each need `bytes` of shared memory; 0: none fits.
  int Warps(int64_t bytes) const {
    const int64_t most = bytes == 0 ? 8 : device.shared_bytes / bytes;
    // Half of it leaves room for a second block.
    const int64_t half = bytes == 0 ? 8 : device.shared_bytes / 2 / bytes;
    return static_cast<int>(
        Smaller<int64_t>(8, half >= 4 ? half : Smaller<int64_t>(most, 4)));
  }

  // Launches a kernel of which each thread takes every so many of `count`
  // numbers.
  template <typename... Parameters, typename... Arguments>
  void PerThread(void (*kernel)(Parameters...), int64_t count,
                 Arguments... arguments) const {
    Launch(kernel, Grid(CeilDivide(count, kBlockThreads)), kBlockThreads, 0,
           stream, arguments...);
  }

  // Launches a kernel of which each warp, with `bytes` of shared memory, takes
  // every so many of `count` items.
  template <typename... Parameters, typename... Arguments>
  void PerWarp(void (*kernel)(Parameters...), int64_t count, int warps,
               int64_t bytes, Arguments... arguments) const {
    Launch(kernel, Grid(CeilDivide(count, warps)), warps * kWarp, warps * bytes,
           stream, arguments...);
  }

  void* stream;
  DeviceLimits device = CurrentDevice();
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_LAUNCHER_H_
