// Sums of rows of a table, of every element type, against plain ones: bags of
// no rows, of one, of many; ragged widths; any order of the items.

#include <random>
#include <string>

#include "cc/core/api/inputs_test_support.h"

int main() {
  using namespace tf_hsm;  // NOLINT
  std::mt19937 rng(1);
  ForEachType([&](auto zero, const std::string& type) {
    for (int64_t examples : {0, 1, 53}) {
      for (int64_t width : {0, 1, 17, 140}) {
        for (int64_t most : {0, 1, 30}) {
          CheckSums<decltype(zero)>(examples, most, 7, width,
                                    type + " B=" + std::to_string(examples) +
                                        " D=" + std::to_string(width) +
                                        " bags<=" + std::to_string(most),
                                    &rng);
        }
      }
    }
  });
  return Summarize();
}
