// Sort and scan on the device: CUB, or the standard library in the emulation.

#ifndef TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_
#define TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace tf_hsm {
namespace gpu {

// Bits that hold every value in [0, count].
inline int BitsFor(int64_t count) {
  int bits = 1;
  while (count >> bits != 0) ++bits;
  return bits;
}

// Sorts keys below 2^bits with their values, stably. With a null `scratch`,
// only sets *scratch_bytes.
inline void SortPairs(void* scratch, int64_t* scratch_bytes,
                      const uint64_t* keys, uint64_t* sorted_keys,
                      const int32_t* values, int32_t* sorted_values,
                      int64_t count, int bits, void* stream) {
#ifdef __CUDACC__
  size_t bytes = static_cast<size_t>(*scratch_bytes);
  cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values,
                                  sorted_values, count, 0, bits,
                                  static_cast<cudaStream_t>(stream));
  *scratch_bytes = static_cast<int64_t>(bytes);
#else
  (void)stream;
  *scratch_bytes = 1;
  if (scratch == nullptr) return;
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  for (int64_t i = 0; i < count; ++i) {
    if (keys[i] >> bits != 0) emulate::Report("a key has too many bits");
    sorted_keys[i] = keys[order[i]];
    sorted_values[i] = values[order[i]];
  }
#endif
}

// sums[i] = values[0] + ... + values[i]; V adds with AddSums. Null as above.
struct AddSums {
  template <typename V>
  TF_HSM_HOST_DEVICE V operator()(const V& a, const V& b) const {
    return a + b;
  }
};

template <typename V>
void ScanSums(void* scratch, int64_t* scratch_bytes, const V* values, V* sums,
              int64_t count, void* stream) {
#ifdef __CUDACC__
  size_t bytes = static_cast<size_t>(*scratch_bytes);
  cub::DeviceScan::InclusiveScan(scratch, bytes, values, sums, AddSums(), count,
                                 static_cast<cudaStream_t>(stream));
  *scratch_bytes = static_cast<int64_t>(bytes);
#else
  (void)stream;
  *scratch_bytes = 1;
  if (scratch == nullptr) return;
  std::partial_sum(values, values + count, sums, AddSums());
#endif
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_
