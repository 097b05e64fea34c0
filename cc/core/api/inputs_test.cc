// Sums of rows of a table, of every element type, against plain ones: bags of
// no rows, of one, of many; ragged widths; any order of the items.

#include <cmath>
#include <random>
#include <string>

#include "cc/core/api/inputs_test_support.h"

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  const double f32 = std::ldexp(1.0, -24), f64 = std::ldexp(1.0, -53);
  for (int64_t examples : {0, 1, 53}) {
    for (int64_t width : {0, 1, 17, 140}) {
      for (int64_t most : {0, 1, 30}) {
        const std::string name = "B=" + std::to_string(examples) +
                                 " D=" + std::to_string(width) +
                                 " bags<=" + std::to_string(most) + " ";
        auto check = [&](auto zero, double sum, const char* type) {
          CheckSums<decltype(zero)>(examples, most, 7, width, sum, name + type,
                                    &rng);
        };
        check(float(), f32, "float");
        check(bfloat16(), f32, "bfloat16");
        check(half(), f32, "half");
        check(double(), f64, "double");
      }
    }
  }
  return Summarize();
}
