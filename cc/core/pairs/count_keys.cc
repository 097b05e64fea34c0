#include "cc/core/pairs/count_keys.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tf_hsm {
namespace {

constexpr int kMaxBucketBits = 11;
constexpr int64_t kBucketKeys = 1 << 12;  // a bucket that is sorted in a cache
constexpr int64_t kMaxChunks = 64, kMinChunk = 1 << 16;  // keys
constexpr int kDigitBits = 11;
constexpr int64_t kFew = 1 << 9;  // keys that take longer by digits

// The number of bits of a number.
int BitsOf(uint64_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) ++bits;
  return bits;
}

void Sort(uint64_t* keys, int64_t size) {
  if (size < kFew) return std::sort(keys, keys + size);
  uint64_t differ = 0;  // bits that are not the same in all keys
  for (int64_t i = 1; i < size; ++i) differ |= keys[i] ^ keys[0];
  const std::unique_ptr<uint64_t[]> other(new uint64_t[size]);
  uint64_t *from = keys, *to = other.get();
  for (int shift = 0; shift < 64 && differ >> shift != 0; shift += kDigitBits) {
    while ((differ >> shift & 1) == 0) ++shift;
    auto digit = [&](uint64_t key) {
      return key >> shift & ((1 << kDigitBits) - 1);
    };
    int64_t places[1 << kDigitBits] = {};
    for (int64_t i = 0; i < size; ++i) ++places[digit(from[i])];
    int64_t total = 0;
    for (int64_t& place : places) total += std::exchange(place, total);
    for (int64_t i = 0; i < size; ++i) to[places[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != keys) std::copy(from, from + size, keys);
}

}  // namespace

KeyCounter::KeyCounter(const int64_t* keys, int64_t size,
                       const KeyCounts& known, const Parallel& parallel)
    : known_(known), keys_(new uint64_t[size]) {
  const int64_t chunk =
      std::max(kMinChunk, (size + kMaxChunks - 1) / kMaxChunks);
  const int64_t num_chunks = (size + chunk - 1) / chunk;
  auto begin = [&](int64_t i) { return keys + i * chunk; };
  auto end = [&](int64_t i) { return keys + std::min(size, (i + 1) * chunk); };
  std::vector<std::pair<int64_t, int64_t>> ends(num_chunks);
  parallel(num_chunks, [&](int64_t i) {
    const auto found = std::minmax_element(begin(i), end(i));
    ends[i] = {*found.first, *found.second};
  });
  if (known.size > 0) {
    ends.push_back({known.keys[0], known.keys[known.size - 1]});
  }
  int64_t least = ends.empty() ? 0 : ends[0].first, most = least;
  for (const auto& one : ends) {
    least = std::min(least, one.first);
    most = std::max(most, one.second);
  }
  least_ = least;
  auto above_least = [this](int64_t key) {
    return static_cast<uint64_t>(key) - least_;
  };
  const int bucket_bits =
      std::clamp(BitsOf(size / kBucketKeys), 1, kMaxBucketBits);
  const int shift = std::max(BitsOf(above_least(most)) - bucket_bits, 0);
  const int64_t num_buckets = int64_t{1} << bucket_bits;
  auto bucket = [&](int64_t key) -> int64_t {
    return above_least(key) >> shift;
  };

  // Where the keys of each chunk begin in each bucket.
  std::vector<std::vector<int64_t>> places(num_chunks);
  parallel(num_chunks, [&](int64_t i) {
    places[i].resize(num_buckets);
    for (const int64_t* key = begin(i); key < end(i); ++key) {
      ++places[i][bucket(*key)];
    }
  });
  int64_t total = 0;
  for (int64_t b = 0; b < num_buckets; ++b) {
    first_key_.push_back(total);
    for (std::vector<int64_t>& place : places) {
      total += std::exchange(place[b], total);
    }
    first_known_.push_back(
        std::partition_point(known.keys, known.keys + known.size,
                             [&](int64_t key) { return bucket(key) < b; }) -
        known.keys);
  }
  first_key_.push_back(total);
  first_known_.push_back(known.size);
  parallel(num_chunks, [&](int64_t i) {
    for (const int64_t* key = begin(i); key < end(i); ++key) {
      keys_[places[i][bucket(*key)]++] = above_least(*key);
    }
  });

  first_distinct_.resize(num_buckets + 1);
  parallel(num_buckets, [&](int64_t b) {
    Sort(keys_.get() + first_key_[b], first_key_[b + 1] - first_key_[b]);
    int64_t num_distinct = 0;
    Merge(b, [&](uint64_t, uint64_t) { ++num_distinct; });
    first_distinct_[b + 1] = num_distinct;
  });
  for (int64_t b = 0; b < num_buckets; ++b) {
    first_distinct_[b + 1] += first_distinct_[b];
  }
}

void KeyCounter::Write(int64_t* keys, int64_t* counts,
                       const Parallel& parallel) const {
  parallel(first_distinct_.size() - 1, [&](int64_t b) {
    int64_t at = first_distinct_[b];
    Merge(b, [&](uint64_t key, uint64_t count) {
      keys[at] = static_cast<int64_t>(key + least_);
      counts[at++] = static_cast<int64_t>(count);
    });
  });
}

template <typename Emit>
void KeyCounter::Merge(int64_t bucket, const Emit& emit) const {
  const uint64_t *key = keys_.get() + first_key_[bucket],
                 *end = keys_.get() + first_key_[bucket + 1];
  int64_t known = first_known_[bucket];
  const int64_t known_end = first_known_[bucket + 1];
  while (key < end || known < known_end) {
    const uint64_t of_known = known < known_end
                                  ? known_.keys[known] - least_
                                  : std::numeric_limits<uint64_t>::max();
    const uint64_t least = key < end ? std::min(*key, of_known) : of_known;
    uint64_t count = 0;
    if (known < known_end && of_known == least) count = known_.counts[known++];
    for (; key < end && *key == least; ++key) ++count;
    emit(least, count);
  }
}

}  // namespace tf_hsm
