// A stable sort of integers in O(count) per 11 bits of their range.

#ifndef TF_HSM_CC_CORE_BASE_RADIX_SORT_H_
#define TF_HSM_CC_CORE_BASE_RADIX_SORT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tf_hsm {

struct KeyAndIndex {
  int64_t key;
  int64_t index;
};

// By key; those of the same key keep their order. Keys may be any numbers.
inline void SortByKey(std::vector<KeyAndIndex>* items) {
  auto before = [](const KeyAndIndex& a, const KeyAndIndex& b) {
    return a.key < b.key;
  };
  if (std::is_sorted(items->begin(), items->end(), before)) return;
  const auto ends = std::minmax_element(items->begin(), items->end(), before);
  const uint64_t least = ends.first->key;
  const uint64_t range = static_cast<uint64_t>(ends.second->key) - least;
  constexpr int kBits = 11, kDigits = 1 << kBits;
  std::vector<KeyAndIndex> sorted(items->size());
  for (int shift = 0; shift < 64 && range >> shift != 0; shift += kBits) {
    auto digit = [&](const KeyAndIndex& item) {
      return (item.key - least) >> shift & (kDigits - 1);
    };
    int64_t starts[kDigits + 1] = {};
    for (const KeyAndIndex& item : *items) ++starts[digit(item) + 1];
    for (int i = 0; i < kDigits; ++i) starts[i + 1] += starts[i];
    for (const KeyAndIndex& item : *items) sorted[starts[digit(item)]++] = item;
    items->swap(sorted);
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_RADIX_SORT_H_
