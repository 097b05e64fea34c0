// Philox4x32-10, a counter-based generator: a draw is a function of a key and a
// counter, the same on any thread in any order (Salmon et al., 2011: Parallel
// Random Numbers: As Easy as 1, 2, 3).

#ifndef TF_HSM_CC_CORE_BASE_PHILOX_H_
#define TF_HSM_CC_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace tf_hsm {

using PhiloxBlock = std::array<uint32_t, 4>;

inline PhiloxBlock Philox(uint64_t key, PhiloxBlock counter) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
               static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Independent uniform numbers in [0, 1), each of 53 bits.
class Uniform {
 public:
  Uniform(uint64_t seed_0, uint64_t seed_1) {
    const PhiloxBlock mixed =
        Philox(seed_0, {static_cast<uint32_t>(seed_1),
                        static_cast<uint32_t>(seed_1 >> 32), 0, 0});
    key_ = mixed[0] | uint64_t{mixed[1]} << 32;
  }

  // The number at (index, step).
  double At(uint64_t index, uint64_t step) const {
    const PhiloxBlock block = Philox(
        key_, {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
               static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)});
    const uint64_t bits = block[0] | uint64_t{block[1]} << 32;
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }

 private:
  uint64_t key_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_PHILOX_H_
