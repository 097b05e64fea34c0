// What every fuzz target is made of. Its file defines Fuzz; the rest of its
// program is libFuzzer, or replay.cc where there is none.

#ifndef TF_HSM_CC_FUZZ_TARGET_H_
#define TF_HSM_CC_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/testing/test_support.h"
#include "cc/core/update/random_bits.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

// The bytes of a fuzzer as numbers: first the bytes, then numbers that follow
// from them. So a few bytes choose shapes and the first values, and more bytes
// more values, but every input is a whole case. A generator of random numbers
// for <random> and for the tests' Draw.
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

// One case. What is wrong is reported as in a test (test_support.h).
void Fuzz(Bytes* bytes);

// Calls call(T(), isa) for an element type and an ISA of this machine.
template <typename Call>
void WithKernel(Bytes* bytes, const Call& call) {
  static const std::vector<Isa> isas = SupportedIsas();
  const Isa isa = isas[bytes->In(0, 255) % isas.size()];
  switch (bytes->In(0, 3)) {
    case 0:
      return call(float(), isa);
    case 1:
      return call(bfloat16(), isa);
    case 2:
      return call(half(), isa);
    default:
      return call(double(), isa);
  }
}

// A batch, and a tree of few groups or a forest; now and then one of several
// blocks of examples, of wide rows, or a pinned tree.
inline Case DrawCase(Bytes* bytes) {
  const int64_t length = bytes->In(0, 7), kind = bytes->In(0, 7);
  const bool is_long = length == 0, is_wide = kind == 0;
  Case c;
  c.batch = static_cast<int>(bytes->In(0, is_long ? 150 : 12));
  c.width = static_cast<int>(bytes->In(0, is_wide ? 140 : 36));
  c.groups = static_cast<int>(bytes->In(1, 40));
  c.most = static_cast<int>(bytes->In(0, 3) == 0 ? bytes->In(1, 120)
                                                 : bytes->In(1, 9));
  c.inner = bytes->In(0, 16) / 16.0;
  c.trees = static_cast<int>(bytes->Coin() ? 1 : bytes->In(1, 6));
  c.pinned = kind == 2 || kind == 3;
  c.label_smoothing = bytes->In(0, 3) == 0 ? bytes->In(0, 8) / 8.0 : 0;
  c.has_prior = c.label_smoothing > 0 && bytes->Coin();
  return c;
}

// Overwrites some numbers by ones of any bits: infinite, NaN, subnormal, huge.
template <typename T>
void MakeSpecial(Bytes* bytes, std::vector<T>* values) {
  constexpr uint64_t kOnes[] = {0, 0x7f80, 0x7c00, 0x7ff0};
  for (int64_t left = bytes->In(0, 4); left > 0 && !values->empty(); --left) {
    uint64_t bits = static_cast<uint64_t>(bytes->Any());
    // The exponent of an infinity of one of the types, on top.
    bits |= kOnes[bytes->In(0, 3)] << (8 * sizeof(T) - 16);
    std::memcpy(&(*values)[(*bytes)() % values->size()], &bits, sizeof(T));
  }
}

inline UpdateRule DrawRule(Bytes* bytes) {
  return kUpdateRules[bytes->In(0, 255) % std::size(kUpdateRules)].rule;
}

// Draws the numbers of an update: any.
template <typename T>
void DrawNumbers(Bytes* bytes, Update<T>* update) {
  std::vector<double> hyper(6, 0.5);
  MakeSpecial(bytes, &hyper);
  update->hyper = {hyper[0], hyper[1], hyper[2], hyper[3]};
  update->decay = hyper[4];
  update->bias_decay = hyper[5];
}

}  // namespace tf_hsm

// What libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // TF_HSM_CC_FUZZ_TARGET_H_
