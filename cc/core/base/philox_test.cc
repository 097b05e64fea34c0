// The generator of random numbers: its blocks against published values, its
// uniform numbers against what chance allows.

#include "cc/core/base/philox.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

bool IsBlock(PhiloxBlock got, PhiloxBlock want) {
  return std::equal(got.words, got.words + 4, want.words);
}

// From Random123's kat_vectors, philox4x32 with 10 rounds.
void CheckPhilox() {
  const uint32_t ones = 0xffffffff;
  Expect(IsBlock(Philox(0, {{0, 0, 0, 0}}),
                 {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}),
         "Philox of zeros");
  Expect(IsBlock(Philox(~uint64_t{0}, {{ones, ones, ones, ones}}),
                 {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}),
         "Philox of ones");
  Expect(IsBlock(Philox(0x299f31d0a4093822,
                        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}),
                 {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}),
         "Philox of the digits of pi");
}

// Neighbouring numbers, by index and by step, are independent and uniform; all
// bits of the seed and of the place matter.
void CheckUniform() {
  const Uniform uniform(3, 4);
  constexpr int kCells = 16;
  constexpr int64_t kNumbers = 100000;
  for (bool by_step : {false, true}) {
    std::vector<double> counts(kCells * kCells);
    for (int64_t i = 0; i < kNumbers; ++i) {
      const double a = uniform.At(i, 0);
      const double b = by_step ? uniform.At(i, 1) : uniform.At(i + 1, 0);
      Expect(a >= 0 && a < 1, "a uniform number");
      ++counts[static_cast<int>(a * kCells) * kCells +
               static_cast<int>(b * kCells)];
    }
    const std::vector<double> expected(counts.size(),
                                       double{kNumbers} / counts.size());
    Expect(std::fabs(ChiSquare(counts, expected)) < 5, "pairs of numbers");
  }
  std::set<double> numbers = {Uniform(0, 0).At(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t one = uint64_t{1} << bit;
    numbers.insert(Uniform(one, 0).At(0, 0));
    numbers.insert(Uniform(0, one).At(0, 0));
    numbers.insert(Uniform(0, 0).At(one, 0));
    numbers.insert(Uniform(0, 0).At(0, one));
  }
  Expect(numbers.size() == 1 + 4 * 64, "a bit that does not matter");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  tf_hsm::CheckPhilox();
  tf_hsm::CheckUniform();
  return tf_hsm::Summarize();
}
