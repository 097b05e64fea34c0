// The random bits of stochastic rounding: a function of the step's seed and of
// a number's row and column, not of threads or of the order of rows.

#ifndef TF_HSM_CC_CORE_UPDATE_RANDOM_BITS_H_
#define TF_HSM_CC_CORE_UPDATE_RANDOM_BITS_H_

#include <cstdint>

#include "cc/core/base/host_device.h"

namespace tf_hsm {

// 32 bits from a counter, or from each lane of a vector of them, by the
// finalizer of MurmurHash3.
template <typename Bits32>
TF_HSM_HOST_DEVICE Bits32 RandomBits(Bits32 counter) {
  counter ^= counter >> 16;
  counter *= 0x85ebca6bu;
  counter ^= counter >> 13;
  counter *= 0xc2b2ae35u;
  return counter ^ (counter >> 16);
}

// 32 bits from a counter of 64, by the finalizer of SplitMix64.
TF_HSM_HOST_DEVICE uint32_t RandomBits64(uint64_t counter) {
  counter = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9u;
  counter = (counter ^ (counter >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(counter >> 32);
}

// The counter of the first weight of a row, and of the first bias.
TF_HSM_HOST_DEVICE uint32_t WeightCounter(uint64_t seed, int64_t row) {
  return RandomBits64(seed + static_cast<uint64_t>(2 * row));
}
TF_HSM_HOST_DEVICE uint32_t BiasCounter(uint64_t seed) {
  return RandomBits64(seed + 1);
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_RANDOM_BITS_H_
