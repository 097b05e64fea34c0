// The bytes of a fuzzer as numbers: first those bytes, then numbers that follow
// from them. So a few bytes choose shapes and the first values, and more bytes
// more values, but every input is a whole case.

#ifndef TF_HSM_CC_FUZZ_BYTES_H_
#define TF_HSM_CC_FUZZ_BYTES_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/update/random_bits.h"

namespace tf_hsm {

// A generator of random numbers for <random> and for the tests' Draw.
class Bytes {
 public:
  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }

  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {
    for (size_t i = 0; i < size; ++i)
      seed_ = (seed_ ^ data[i]) * 0x100000001b3u;
  }

  uint32_t operator()() {
    if (at_ >= size_) return RandomBits64(seed_ + ++drawn_);
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | Byte();
    return value;
  }

  // A number in [low, high], which are less than 256 apart, from one byte.
  int64_t In(int64_t low, int64_t high) {
    const uint32_t byte = at_ < size_ ? Byte() : (*this)() >> 24;
    return low + byte % (high - low + 1);
  }

  bool Coin() { return In(0, 1) == 1; }

  // Any number; often one at the end of a range.
  int64_t Any() {
    const int64_t ends[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -1, 0};
    const int64_t kind = In(0, 15);
    if (kind < 6) return ends[kind];
    if (kind < 12) return In(-128, 127);
    return static_cast<int64_t>(static_cast<uint64_t>((*this)()) << 32 |
                                (*this)());
  }

 private:
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  uint64_t seed_ = 0xcbf29ce484222325u;
  uint64_t drawn_ = 0;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_FUZZ_BYTES_H_
