// The uniform numbers of cc/core/base/philox.h, on the device.

#ifndef TF_HSM_CC_CUDA_DEVICE_UNIFORM_H_
#define TF_HSM_CC_CUDA_DEVICE_UNIFORM_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

namespace tf_hsm {
namespace gpu {

// Philox4x32-10.
TF_HSM_DEVICE void Shuffle(uint64_t key, uint32_t (&counter)[4]) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter[0] = static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0;
    counter[1] = static_cast<uint32_t>(p1);
    counter[2] = static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1;
    counter[3] = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

// The number in [0, 1) at (index, step) of the seeds.
TF_HSM_DEVICE double UniformNumber(uint64_t seed_0, uint64_t seed_1,
                                   uint64_t index, uint64_t step) {
  uint32_t mixed[4] = {static_cast<uint32_t>(seed_1),
                       static_cast<uint32_t>(seed_1 >> 32), 0, 0};
  Shuffle(seed_0, mixed);
  uint32_t block[4] = {
      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
      static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)};
  Shuffle(mixed[0] | static_cast<uint64_t>(mixed[1]) << 32, block);
  const uint64_t bits = block[0] | static_cast<uint64_t>(block[1]) << 32;
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_DEVICE_UNIFORM_H_
