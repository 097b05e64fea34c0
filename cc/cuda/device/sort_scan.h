// Sort and scan on the device: CUB, or the standard library in the emulation.
// Functions return an empty string, or a sentence that says what is wrong; then
// nothing that they write may be read.

#ifndef TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_
#define TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_

#include <cstdint>
#include <string>

#include "cc/cuda/device/device.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace tf_hsm::gpu {

#ifndef __CUDACC__
// Whether a call that needs so many bytes of scratch goes on; with a null
// `scratch`, sets *scratch_bytes only.
inline bool GoesOn(const void* scratch, int64_t* scratch_bytes, int64_t needs,
                   std::string* error) {
  if (scratch == nullptr) {
    *scratch_bytes = needs;
    return false;
  }
  if (*scratch_bytes < needs) *error = "the scratch of a sort is too small";
  if (emulate::FailsNow()) *error = "a sort that fails, as the test asked for";
  return error->empty();
}
#endif

// Sorts keys below 2^bits with their values, stably. With a null `scratch`,
// only sets *scratch_bytes.
inline std::string SortPairs(void* scratch, int64_t* scratch_bytes,
                             const uint64_t* keys, uint64_t* sorted_keys,
                             const int32_t* values, int32_t* sorted_values,
                             int64_t count, int bits, void* stream) {
#ifdef __CUDACC__
  size_t bytes = static_cast<size_t>(*scratch_bytes);
  num_launches += scratch == nullptr ? 0 : 1;
  const cudaError_t error = cub::DeviceRadixSort::SortPairs(
      scratch, bytes, keys, sorted_keys, values, sorted_values, count, 0, bits,
      static_cast<cudaStream_t>(stream));
  *scratch_bytes = static_cast<int64_t>(bytes);
  return ErrorText(error);
#else
  std::string error;
  if (!GoesOn(scratch, scratch_bytes, count, &error)) return error;
  emulate::Use(stream);
  ++num_launches;
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  for (int64_t i = 0; i < count; ++i) {
    if (keys[i] >> bits != 0) emulate::Report("a key has too many bits");
    sorted_keys[i] = keys[order[i]];
    sorted_values[i] = values[order[i]];
  }
  return "";
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
std::string ScanSums(void* scratch, int64_t* scratch_bytes, const V* values,
                     V* sums, int64_t count, void* stream) {
#ifdef __CUDACC__
  size_t bytes = static_cast<size_t>(*scratch_bytes);
  num_launches += scratch == nullptr ? 0 : 2;
  const cudaError_t error =
      cub::DeviceScan::InclusiveScan(scratch, bytes, values, sums, AddSums(),
                                     count, static_cast<cudaStream_t>(stream));
  *scratch_bytes = static_cast<int64_t>(bytes);
  return ErrorText(error);
#else
  std::string error;
  if (!GoesOn(scratch, scratch_bytes, count, &error)) return error;
  emulate::Use(stream);
  num_launches += 2;
  std::partial_sum(values, values + count, sums, AddSums());
  return "";
#endif
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_SORT_SCAN_H_
