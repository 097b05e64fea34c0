// The k smallest of many keys, by a block: one read of them.
//
// A class, or node, and its log-probability are one number of 64 bits, smaller
// where it is better, and no two classes have the same. Keys that could be
// among the k are collected in shared memory; when it is full, they are sorted
// and all but k forgotten. So the result does not depend on the order in which
// threads run. Several blocks can take parts of the keys, and one the k of each
// part.

#ifndef TF_HSM_CC_CUDA_PREDICT_BEST_KEYS_H_
#define TF_HSM_CC_CUDA_PREDICT_BEST_KEYS_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

constexpr uint64_t kNoKey = ~uint64_t{0};

// Ascends as the log-probability descends, then as the number ascends, which is
// below 2^31. NaN counts as minus infinity, but is told apart below that.
TF_HSM_DEVICE uint64_t KeyOf(float log_prob, int64_t number) {
  const bool is_nan = log_prob != log_prob;
  const float value = is_nan ? -static_cast<float>(INFINITY) : log_prob;
  const uint32_t bits = FloatBits(value == 0 ? 0.0f : value);
  const uint32_t ascending = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 |
         static_cast<uint32_t>(number) << 1 | (is_nan ? 1u : 0u);
}

TF_HSM_DEVICE int64_t NumberOf(uint64_t key) {
  return static_cast<int64_t>(static_cast<uint32_t>(key) >> 1);
}

// NaN as minus infinity; kNoKey also.
TF_HSM_DEVICE float BoundOf(uint64_t key) {
  if (key == kNoKey) return -static_cast<float>(INFINITY);
  const uint32_t ascending = ~static_cast<uint32_t>(key >> 32);
  return BitsFloat(ascending >> 31 != 0 ? ascending & 0x7fffffffu : ~ascending);
}

TF_HSM_DEVICE float LogProbOf(uint64_t key) {
  return (key & 1) != 0 ? static_cast<float>(NAN) : BoundOf(key);
}

class BestKeys {
 public:
  static constexpr int kThreads = 256;
  static constexpr int kEach = 2;  // keys that a thread loads at a time
  static constexpr int kAtOnce = kThreads * kEach;
  static constexpr int kCapacity = 2048;
  static constexpr int64_t kSharedBytes =
      kCapacity * sizeof(uint64_t) + sizeof(int);
  static_assert(kMaxTopK + kAtOnce < kCapacity, "room for more than k");

  TF_HSM_DEVICE explicit BestKeys(int k)
      : keys_(reinterpret_cast<uint64_t*>(SharedMemory())),
        count_(reinterpret_cast<int*>(keys_ + kCapacity)),
        k_(k) {
    if (ThreadIndex() == 0) *count_ = 0;
    SyncBlock();
  }

  // From now on adds only keys below this one.
  TF_HSM_DEVICE void AddBelow(uint64_t worst) { worst_ = worst; }

  // Adds key_at(i) for i in [begin, end).
  template <typename KeyAt>
  TF_HSM_DEVICE void Add(int64_t begin, int64_t end, const KeyAt& key_at) {
    for (int64_t i = begin + ThreadIndex(); i - ThreadIndex() < end;
         i += kAtOnce) {
      uint64_t keys[kEach];
      TF_HSM_UNROLL
      for (int j = 0; j < kEach; ++j) {
        keys[j] = i + j * kThreads < end ? key_at(i + j * kThreads) : kNoKey;
      }
      TF_HSM_UNROLL
      for (int j = 0; j < kEach; ++j) {
        if (keys[j] < worst_) keys_[AddAtomically(count_, 1)] = keys[j];
      }
      SyncBlock();
      const int count = *count_;
      SyncBlock();
      if (count > kCapacity - kAtOnce) Sort(count);
    }
  }

  // Sorts them; from then on At(i) is the i-th best, or kNoKey.
  TF_HSM_DEVICE void Finish() { Sort(*count_); }
  TF_HSM_DEVICE uint64_t At(int i) const {
    return i < *count_ ? keys_[i] : kNoKey;
  }

 private:
  // A bitonic network. Keeps the k best of `count`.
  TF_HSM_DEVICE void Sort(int count) {
    int sorted = 1;
    while (sorted < count) sorted *= 2;
    for (int i = count + ThreadIndex(); i < sorted; i += kThreads) {
      keys_[i] = kNoKey;
    }
    SyncBlock();
    for (int size = 2; size <= sorted; size *= 2) {
      for (int step = size / 2; step > 0; step /= 2) {
        for (int i = ThreadIndex(); i < sorted; i += kThreads) {
          const int other = i ^ step;
          if (other <= i) continue;
          const uint64_t a = keys_[i], b = keys_[other];
          if ((a > b) == ((i & size) == 0)) {
            keys_[i] = b;
            keys_[other] = a;
          }
        }
        SyncBlock();
      }
    }
    if (ThreadIndex() == 0) *count_ = Smaller(count, k_);
    if (count >= k_) worst_ = keys_[k_ - 1];
    SyncBlock();
  }

  uint64_t* keys_;
  int* count_;
  const int k_;
  uint64_t worst_ = kNoKey;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_BEST_KEYS_H_
