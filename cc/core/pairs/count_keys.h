// Counts equal keys by sorting them.

#ifndef TF_HSM_CC_CORE_PAIRS_COUNT_KEYS_H_
#define TF_HSM_CC_CORE_PAIRS_COUNT_KEYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// Distinct keys, ascending, and how often each was counted.
struct KeyCounts {
  const int64_t* keys;
  const int64_t* counts;
  int64_t size;
};

// Adds `size` keys, any numbers in any order, to the keys that are `known`.
// Counts are added as uint64_t.
//
// The keys go to buckets by their leading bits. Each bucket, which is likely to
// fit a cache, is sorted from the last digit to the first, and merged with the
// known keys of its range. Takes 8 bytes a key.
class KeyCounter {
 public:
  KeyCounter(const int64_t* keys, int64_t size, const KeyCounts& known,
             const Parallel& parallel);

  int64_t num_distinct() const { return first_distinct_.back(); }

  // Writes num_distinct() keys, ascending, and their counts.
  void Write(int64_t* keys, int64_t* counts, const Parallel& parallel) const;

 private:
  // Calls emit(key, count) for the distinct keys of a bucket, ascending.
  template <typename Emit>
  void Merge(int64_t bucket, const Emit& emit) const;

  const KeyCounts known_;
  uint64_t least_ = 0;
  std::unique_ptr<uint64_t[]> keys_;  // less the least one, by bucket
  std::vector<int64_t> first_key_;    // of each bucket, and the number of all
  std::vector<int64_t> first_known_;  // the same of known keys
  std::vector<int64_t> first_distinct_;  // the same of distinct keys
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PAIRS_COUNT_KEYS_H_
