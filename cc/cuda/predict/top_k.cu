// The k best classes, selected from the log-probabilities of all of them.
//
// A class and its log-probability become one number of 64 bits, smaller where
// the class is better, and no two of them equal. A block per example finds the
// k-th smallest by its bits, eight at a time from the top, collects the numbers
// up to it, and sorts them. So the result does not depend on the order in which
// threads run. Bytes: nine reads of the log-probabilities.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/predict/examples.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kBuckets = 256;

// Ascends as the log-probability descends, then as the class ascends.
TF_HSM_DEVICE uint64_t KeyOf(float log_prob, int64_t id) {
  const float value =
      log_prob != log_prob ? -static_cast<float>(INFINITY) : log_prob;
  const uint32_t bits = FloatBits(value == 0 ? 0.0f : value);
  const uint32_t ascending = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 | static_cast<uint32_t>(id);
}

TF_HSM_KERNEL(kThreads)
SelectBest(const float* all, int64_t num_classes, int k, int sorted_count,
           float* log_probs, int64_t* classes) {
  uint64_t* best = reinterpret_cast<uint64_t*>(SharedMemory());
  int* buckets = reinterpret_cast<int*>(best + sorted_count);
  int* found = buckets + kBuckets;  // [4]: count; bucket; rank within it
  const float* own = all + BlockIndex() * num_classes;
  uint64_t prefix = 0;
  int rank = k;  // of the wanted one among those with the prefix, from 1
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int i = ThreadIndex(); i < kBuckets; i += kThreads) buckets[i] = 0;
    SyncBlock();
    const uint64_t above = shift == 56 ? 0 : ~uint64_t{0} << (shift + 8);
    for (int64_t c = ThreadIndex(); c < num_classes; c += kThreads) {
      const uint64_t key = KeyOf(own[c], c);
      if ((key & above) == prefix) {
        AddAtomically(buckets + (key >> shift & 255), 1);
      }
    }
    SyncBlock();
    if (ThreadIndex() == 0) {
      int left = rank, bucket = 0;
      while (left > buckets[bucket]) left -= buckets[bucket++];
      found[1] = bucket;
      found[2] = left;
    }
    SyncBlock();
    prefix |= static_cast<uint64_t>(found[1]) << shift;
    rank = found[2];
    SyncBlock();
  }
  if (ThreadIndex() == 0) found[0] = 0;
  for (int i = ThreadIndex(); i < sorted_count; i += kThreads) {
    best[i] = ~uint64_t{0};
  }
  SyncBlock();
  for (int64_t c = ThreadIndex(); c < num_classes; c += kThreads) {
    const uint64_t key = KeyOf(own[c], c);
    if (key <= prefix) best[AddAtomically(found, 1)] = key;
  }
  SyncBlock();
  // A bitonic network.
  for (int size = 2; size <= sorted_count; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int i = ThreadIndex(); i < sorted_count; i += kThreads) {
        const int other = i ^ step;
        if (other <= i) continue;
        const uint64_t a = best[i], b = best[other];
        if ((a > b) == ((i & size) == 0)) {
          best[i] = b;
          best[other] = a;
        }
      }
      SyncBlock();
    }
  }
  for (int i = ThreadIndex(); i < k; i += kThreads) {
    const int64_t id = static_cast<int64_t>(best[i] & 0xffffffffu);
    classes[BlockIndex() * k + i] = id;
    log_probs[BlockIndex() * k + i] = own[id];
  }
}

}  // namespace

template <typename T>
int64_t TopKBytes(const Batch<T>& batch, int64_t chunk) {
  const Batch<T> part = ExamplesOf(batch, 0, Smaller(chunk, batch.size));
  return RoundUp(part.size * batch.tree.num_classes * sizeof(float), 256) +
         LogProbsBytes(part, false);
}

template <typename T>
std::string TopK(const Batch<T>& batch, const std::vector<int64_t>& levels,
                 int64_t k, int64_t chunk, float* log_probs, int64_t* classes,
                 void* scratch, void* stream) {
  const int64_t num_classes = batch.tree.num_classes;
  const std::string error =
      CheckBetween("k", k, 1, Smaller(kMaxTopK, num_classes));
  if (!error.empty()) return error;
  if (num_classes > int64_t{1} << 31 || chunk < 1) {
    return "num_classes is " + std::to_string(num_classes) + " and chunk is " +
           std::to_string(chunk) + ", but must be at most 2^31 and at least 1";
  }
  int sorted_count = 1;
  while (sorted_count < k) sorted_count *= 2;
  const int64_t most = Smaller(chunk, batch.size);
  float* all = static_cast<float*>(scratch);
  char* rest = static_cast<char*>(scratch) +
               RoundUp(most * num_classes * sizeof(float), 256);
  return ForEachChunk(batch, chunk, [&](int64_t begin, const Batch<T>& part) {
    const std::string failed = LogProbs(part, levels, false, all, rest, stream);
    if (!failed.empty()) return failed;
    Launch(SelectBest, part.size, kThreads,
           sorted_count * sizeof(uint64_t) + (kBuckets + 4) * sizeof(int),
           stream, all, num_classes, static_cast<int>(k), sorted_count,
           log_probs + begin * k, classes + begin * k);
    return std::string();
  });
}

#define TF_HSM_INSTANTIATE(T) TF_HSM_MAKE(TopKBytes, T) TF_HSM_MAKE(TopK, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace gpu
}  // namespace tf_hsm
