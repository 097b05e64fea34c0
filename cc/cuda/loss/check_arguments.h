// What entry points refuse: each function returns an empty string, or a
// sentence that says what is wrong.

#ifndef TF_HSM_CC_CUDA_LOSS_CHECK_ARGUMENTS_H_
#define TF_HSM_CC_CUDA_LOSS_CHECK_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"

namespace tf_hsm::gpu {

inline std::string CheckBetween(const char* name, int64_t value, int64_t low,
                                int64_t high) {
  if (value >= low && value <= high) return "";
  return std::string(name) + " is " + std::to_string(value) +
         ", but must be in [" + std::to_string(low) + ", " +
         std::to_string(high) + "]";
}

template <typename T>
std::string CheckBatch(const Batch<T>& batch) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t num_rows = batch.tree.num_rows;
  const bool pinned = batch.tree.pinned;
  const struct {
    const char* name;
    int64_t value, low, high;
  } ranges[] = {{"size", batch.size, 0, kMost},
                {"width", batch.width, 1, kMost},
                {"num_ignored", batch.num_ignored, 0, kMaxIgnored},
                {"num_groups", batch.tree.num_groups, pinned ? num_rows / 2 : 1,
                 pinned ? num_rows / 2 : num_rows},
                {"depth", batch.shape.depth, 1, kMost},
                {"max_fanout", batch.shape.max_fanout, 1,
                 pinned ? 2 : std::min(num_rows, (int64_t{1} << 32) - 1)}};
  for (const auto& [name, value, low, high] : ranges) {
    const std::string error = CheckBetween(name, value, low, high);
    if (!error.empty()) return error;
  }
  const bool is_flat =
      batch.tree.num_groups == 1 && batch.shape.large_depth == 1;
  if (!is_flat && (batch.logit_soft_cap > 0 || batch.z_loss > 0)) {
    return "logit_soft_cap and z_loss are for a tree of one large group";
  }
  if (batch.logit_soft_cap > 0 && batch.label_smoothing > 0) {
    return "label_smoothing and logit_soft_cap exclude each other";
  }
  return "";
}

inline std::string TooWide(int64_t width) {
  return "width is " + std::to_string(width) +
         ", whose rows do not fit the shared memory of this device";
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_CHECK_ARGUMENTS_H_
