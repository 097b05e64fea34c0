// Counts of keys, against a map: any keys, many and few distinct ones.

#include "cc/core/pairs/count_keys.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

using Counts = std::map<int64_t, uint64_t>;

// Keys that differ in the bits of `mask`; small ones are more frequent.
std::vector<int64_t> DrawKeys(int64_t size, uint64_t mask, uint64_t least,
                              std::mt19937_64* rng) {
  std::vector<int64_t> keys(size);
  for (int64_t& key : keys) {
    const uint64_t number = (*rng)() >> ((*rng)() % 64);
    key = static_cast<int64_t>(least + (number & mask));
  }
  return keys;
}

// Counts keys on top of the known ones, and adds them to `want`.
void Check(const std::vector<int64_t>& keys, const std::string& name,
           Counts* want) {
  std::vector<int64_t> known, known_counts;
  for (const auto& [key, count] : *want) {
    known.push_back(key);
    known_counts.push_back(static_cast<int64_t>(count));
  }
  for (const int64_t key : keys) ++(*want)[key];
  for (const Parallel& parallel : {Parallel(Serial), Parallel(Reversed)}) {
    const int64_t num_known = known.size();
    const KeyCounter counter(keys.data(), keys.size(),
                             {known.data(), known_counts.data(), num_known},
                             parallel);
    const int64_t num_distinct = counter.num_distinct();
    Expect(num_distinct == static_cast<int64_t>(want->size()), name);
    std::vector<int64_t> distinct(num_distinct), counts(num_distinct);
    counter.Write(distinct.data(), counts.data(), parallel);
    Counts got;
    for (int64_t i = 0; i < num_distinct; ++i) {
      Expect(i == 0 || distinct[i - 1] < distinct[i], name + ": ascending");
      got[distinct[i]] = counts[i];
    }
    Expect(got == *want, name);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937_64 rng(1);
  for (const int64_t size : {0, 1, 2, 23, 700, 5000, 300000}) {
    for (const uint64_t mask :
         {uint64_t{0}, uint64_t{5}, uint64_t{0x3ff0000ffff}, ~uint64_t{0}}) {
      for (const uint64_t least : {uint64_t{0}, uint64_t{1} << 63}) {
        const std::string name =
            std::to_string(size) + " keys of mask " + std::to_string(mask);
        tf_hsm::Counts counts;
        for (const int64_t more : {size, size / 3, int64_t{0}}) {
          tf_hsm::Check(tf_hsm::DrawKeys(more, mask, least, &rng), name,
                        &counts);
        }
        // Keys beyond those known, on both sides, and a sum that wraps.
        counts = {{-7, 1}, {3, ~uint64_t{0}}};
        tf_hsm::Check({5, 3, -9, 3}, name, &counts);
      }
    }
  }
  return tf_hsm::Summarize();
}
