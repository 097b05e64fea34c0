// Sums of rows of a table against plain ones: what their test and their fuzz
// target share.

#ifndef TF_HSM_CC_CORE_API_INPUTS_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_API_INPUTS_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/base/types.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {

// Bags of up to `most` of `rows` rows, which may repeat, for so many examples.
template <typename A, typename Rng>
Bags<A> RandomBags(int64_t examples, int64_t most, int64_t rows, Rng* rng) {
  Bags<A> bags;
  bags.starts = {0};
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t left = (*rng)() % (most + 1); left > 0; --left) {
      bags.rows.push_back((*rng)() % rows);
      bags.factors.push_back((static_cast<int>((*rng)() % 9) - 4) / A(3));
    }
    bags.starts.push_back(bags.rows.size());
  }
  return bags;
}

template <typename T, typename Rng>
void CheckSums(int64_t examples, int64_t most, int64_t rows, int64_t width,
               const std::string& name, Rng* rng) {
  using A = Accumulator<T>;
  const double sum = RoundingOf<T>().sum;
  const std::vector<T> x = Draw<T>(rows * width, 64, rng);
  const Bags<A> bags = RandomBags<A>(examples, most, rows, rng);
  const int64_t padded = Padded(width);
  std::vector<A> packed(examples * padded, NAN), reversed = packed;
  PackSums(bags, x.data(), width, Serial, packed.data());
  PackSums(bags, x.data(), width, Reversed, reversed.data());
  Expect(SameBits(packed, reversed),
         name + ": the order of items changes the bits");
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t d = 0; d < padded; ++d) {
      double want = 0;
      for (int64_t p = bags.starts[i]; d < width && p < bags.starts[i + 1];
           ++p) {
        want +=
            ToDouble(bags.factors[p]) * ToDouble(x[bags.rows[p] * width + d]);
      }
      Near(packed[i * padded + d], want, d < width ? sum * (4 + 2 * most) : 0,
           name + " sum");
    }
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_INPUTS_TEST_SUPPORT_H_
