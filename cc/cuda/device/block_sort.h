// Sort and scan by the threads of one block: the sort of CUB, or the standard
// library in the emulation. All threads of the block call a function, which
// begins with a barrier; arrays are in global memory, SharedMemory() is
// overwritten, and results are there behind the next barrier.

#ifndef TF_HSM_CC_CUDA_DEVICE_BLOCK_SORT_H_
#define TF_HSM_CC_CUDA_DEVICE_BLOCK_SORT_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

#ifdef __CUDACC__
#include <cub/block/block_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#endif

namespace tf_hsm::gpu {

// Bits that hold every value in [0, count].
inline int BitsFor(int64_t count) {
  int bits = 1;
  while (count >> bits != 0) ++bits;
  return bits;
}

// A block of `threads` sorts at most `threads` x `per_thread` keys.
template <int threads, int per_thread>
class BlockSort {
 public:
#ifdef __CUDACC__
  using Sort = cub::BlockRadixSort<uint32_t, threads, per_thread, int32_t>;
  static constexpr int64_t kSharedBytes = sizeof(typename Sort::TempStorage);
#else
  static constexpr int64_t kSharedBytes = 0;
#endif

  // order [count] becomes the indices of the keys, ascending, those of equal
  // keys too. Keys are below 2^bits, and bits at most 32.
  TF_HSM_DEVICE static void Run(const uint64_t* keys, int count, int bits,
                                int32_t* order) {
    SyncBlock();
#ifdef __CUDACC__
    uint32_t own_keys[per_thread];
    int32_t indices[per_thread];
    TF_HSM_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      indices[i] = ThreadIndex() * per_thread + i;
      // Those past the end stay behind, since the sort is stable.
      own_keys[i] = indices[i] < count ? static_cast<uint32_t>(keys[indices[i]])
                                       : ~uint32_t{0};
    }
    Sort(*reinterpret_cast<typename Sort::TempStorage*>(SharedMemory()))
        .Sort(own_keys, indices, 0, bits);
    TF_HSM_UNROLL
    for (int i = 0; i < per_thread; ++i) {
      const int at = ThreadIndex() * per_thread + i;
      if (at < count) order[at] = indices[i];
    }
#else
    if (count > threads * per_thread) emulate::Report("too many keys");
    if (ThreadIndex() == 0) {
      for (int i = 0; i < count; ++i) {
        if (keys[i] >> bits != 0) emulate::Report("a key has too many bits");
      }
      std::iota(order, order + count, 0);
      std::stable_sort(order, order + count,
                       [&](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    }
#endif
  }
};

// Threads that scan; a block has at least as many.
constexpr int kScanThreads = 256;

template <typename V>
constexpr int64_t BlockScanBytes() {
  return (kScanThreads + kWarp) * sizeof(V);
}

// sums[i] = values[0] + ... + values[i]; V{} is zero.
template <typename V>
TF_HSM_DEVICE void ScanInBlock(const V* values, int64_t count, V* sums) {
  constexpr int kOfLane = kScanThreads / kWarp;
  V* const of_threads = reinterpret_cast<V*>(SharedMemory());
  V* const before_lanes = of_threads + kScanThreads;
  const int64_t share = CeilDivide(count, kScanThreads);
  const int64_t begin = Smaller(ThreadIndex() * share, count);
  const int64_t end = Smaller(begin + share, count);
  const bool scans = ThreadIndex() < kScanThreads;
  SyncBlock();
  if (scans) {
    V sum = {};
    for (int64_t i = begin; i < end; ++i) sum = sum + values[i];
    of_threads[ThreadIndex()] = sum;
  }
  SyncBlock();
  if (WarpIndex() == 0) {
    V* const own = of_threads + Lane() * kOfLane;
    for (int i = 1; i < kOfLane; ++i) own[i] = own[i - 1] + own[i];
    SyncWarp();
    V before = {};
    for (int lane = 0; lane < Lane(); ++lane) {
      before = before + of_threads[(lane + 1) * kOfLane - 1];
    }
    before_lanes[Lane()] = before;
  }
  SyncBlock();
  if (scans) {
    V sum = before_lanes[ThreadIndex() / kOfLane];
    if (ThreadIndex() % kOfLane > 0) sum = sum + of_threads[ThreadIndex() - 1];
    for (int64_t i = begin; i < end; ++i) {
      sum = sum + values[i];
      sums[i] = sum;
    }
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_BLOCK_SORT_H_
