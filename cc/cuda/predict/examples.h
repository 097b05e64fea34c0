// A batch in parts, and what draws refuse.

#ifndef TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_
#define TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/launcher.h"

namespace tf_hsm::gpu {

// Bytes of an input.
template <typename T>
int64_t InputBytes(const Batch<T>& batch) {
  int64_t bytes = 0;
  WithElements(batch.input_type, nullptr, [&](const auto* element) {
    bytes = batch.width * static_cast<int64_t>(sizeof(*element));
  });
  return bytes;
}

// The `size` examples from `begin` on; the labels stay.
template <typename T>
Batch<T> ExamplesOf(const Batch<T>& batch, int64_t begin, int64_t size) {
  Batch<T> part = batch;
  part.size = size;
  part.inputs =
      static_cast<const char*>(batch.inputs) + begin * InputBytes(batch);
  if (batch.root_log_probs != nullptr) {
    part.root_log_probs = batch.root_log_probs + begin * batch.tree.num_roots;
  }
  return part;
}

// use(begin, part) for parts of at most `chunk` examples, until it returns an
// error.
template <typename T, typename Use>
std::string ForEachChunk(const Batch<T>& batch, int64_t chunk, const Use& use) {
  for (int64_t begin = 0; begin < batch.size; begin += chunk) {
    const int64_t size = Smaller(chunk, batch.size - begin);
    const std::string error = use(begin, ExamplesOf(batch, begin, size));
    if (!error.empty()) return error;
  }
  return LaunchError();
}

// What draws refuse, as in check_arguments.h.
inline std::string CheckSampling(const SampleArguments& arguments) {
  if (arguments.num_samples >= 0 && arguments.temperature > 0) return "";
  return "num_samples is " + std::to_string(arguments.num_samples) +
         " and temperature is " + std::to_string(arguments.temperature) +
         ", but must be at least 0 and above 0";
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_EXAMPLES_H_
