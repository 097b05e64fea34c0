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
#include "cc/core/update/update.h"
#include "cc/fuzz/bytes.h"

namespace tf_hsm {

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
