// Philox4x32-10, a counter-based generator: a draw is a function of a key and a
// counter, the same on any thread in any order (Salmon et al., 2011: Parallel
// Random Numbers: As Easy as 1, 2, 3). CPUs and GPUs share these lines.

#ifndef TF_HSM_CC_CORE_BASE_PHILOX_H_
#define TF_HSM_CC_CORE_BASE_PHILOX_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_hsm {

struct PhiloxBlock {
  uint32_t words[4];
};

TF_HSM_HOST_DEVICE PhiloxBlock Philox(uint64_t key, PhiloxBlock counter) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
#ifdef __CUDA_ARCH__
#pragma unroll 1  // in line, DrawClasses takes 16 to 30 registers more
#endif
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter.words[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter.words[2];
    counter = {{static_cast<uint32_t>(p1 >> 32) ^ counter.words[1] ^ k0,
                static_cast<uint32_t>(p1),
                static_cast<uint32_t>(p0 >> 32) ^ counter.words[3] ^ k1,
                static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Independent uniform numbers in [0, 1), each of 53 bits.
class Uniform {
 public:
  TF_HSM_HOST_DEVICE Uniform(uint64_t seed_0, uint64_t seed_1)
      : key_(Bits(Philox(seed_0, Counter(seed_1, 0)))) {}

  // The number at (index, step).
  TF_HSM_HOST_DEVICE double At(uint64_t index, uint64_t step) const {
    const uint64_t bits = Bits(Philox(key_, Counter(index, step)));
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

 private:
  TF_HSM_HOST_DEVICE static PhiloxBlock Counter(uint64_t low, uint64_t high) {
    return {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
             static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)}};
  }
  TF_HSM_HOST_DEVICE static uint64_t Bits(PhiloxBlock block) {
    return block.words[0] | static_cast<uint64_t>(block.words[1]) << 32;
  }

  uint64_t key_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_PHILOX_H_
