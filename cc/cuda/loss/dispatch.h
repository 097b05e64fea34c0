// Which kernel runs, with which shape of launch: what the entry points of
// forward.cu and backward.cu share.

#ifndef TF_HSM_CC_CUDA_LOSS_DISPATCH_H_
#define TF_HSM_CC_CUDA_LOSS_DISPATCH_H_

#include <cstdint>
#include <string>

#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/wide_backward.h"
#include "cc/cuda/loss/wide_forward.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm {
namespace gpu {

// Matrix instructions serve all types but double.
template <typename T>
bool UsesTensorCores(const Batch<T>& batch, const DeviceLimits& device) {
  return sizeof(T) < sizeof(double) && device.has_tensor_cores &&
         batch.precision == Precision::kTensorCores;
}

// The fewest slabs whose tiles fit the shared memory of a block.
template <typename Product>
Slabs SlabsFor(int64_t width, const DeviceLimits& device) {
  Slabs slabs;
  for (slabs.count = 1;; ++slabs.count) {
    slabs.columns =
        static_cast<int>(RoundUp(CeilDivide(width, slabs.count), kColumnStep));
    if (slabs.columns <= kMaxColumns &&
        ForwardSharedBytes<Product>(slabs.columns) <= device.shared_bytes &&
        BackwardSharedBytes<Product>(slabs.columns) <= device.shared_bytes) {
      slabs.count = static_cast<int>(CeilDivide(width, slabs.columns));
      return slabs;
    }
  }
}

template <typename T>
Slabs SlabsOf(const Batch<T>& batch, const DeviceLimits& device) {
  if constexpr (sizeof(T) < sizeof(double)) {
    if (UsesTensorCores(batch, device)) {
      return SlabsFor<MmaProduct<T>>(batch.width, device);
    }
  }
  return SlabsFor<SimtProduct<T>>(batch.width, device);
}

// Blocks that keep the device busy, of `count` independent ones.
inline int64_t Grid(int64_t count, const DeviceLimits& device) {
  return Smaller<int64_t>(count, int64_t{device.num_processors} * 8);
}

template <typename T>
LaunchShape ShapeOf(const Batch<T>& batch, const DeviceLimits& device) {
  LaunchShape shape;
  // As many as can be there at once if each takes half of the shared memory.
  shape.blocks = int64_t{device.num_processors} * 2;
  shape.slabs = SlabsOf(batch, device);
  shape.tensor_cores = UsesTensorCores(batch, device);
  if (sizeof(T) < sizeof(double) && batch.size > kMaxStreamExamples &&
      batch.shape.wide_depth > 0 && device.shared_bytes >= kHotSharedBytes) {
    shape.hot_items = Smaller(kMaxHotItems, 2 * shape.blocks);
  }
  shape.narrow_inputs =
      shape.tensor_cores && sizeof(T) < sizeof(Accumulator<T>);
  return shape;
}

template <typename T>
WideArguments<T> WideArgumentsOf(const Batch<T>& batch, const Slabs& slabs,
                                 const Buffers<T>& buffers) {
  return {batch.weights,
          batch.biases,
          batch.width,
          slabs,
          CopyBytes(batch.weights, batch.width),
          CopyBytes(buffers.x, batch.width),
          buffers};
}

// Warps of a block that each need `bytes` of shared memory; 0: none fits.
inline int WarpsFor(int64_t bytes, const DeviceLimits& device) {
  const int64_t most = bytes == 0 ? 8 : device.shared_bytes / bytes;
  // Half of it leaves room for a second block.
  const int64_t half = bytes == 0 ? 8 : device.shared_bytes / 2 / bytes;
  return static_cast<int>(
      Smaller<int64_t>(8, half >= 4 ? half : Smaller<int64_t>(most, 4)));
}

inline std::string TooWide(int64_t width) {
  return "width is " + std::to_string(width) +
         ", whose rows do not fit the shared memory of this device";
}

template <typename T>
std::string CheckBatch(const Batch<T>& batch) {
  auto between = [](const char* name, int64_t value, int64_t low,
                    int64_t high) -> std::string {
    if (value >= low && value <= high) return "";
    return std::string(name) + " is " + std::to_string(value) +
           ", but must be in [" + std::to_string(low) + ", " +
           std::to_string(high) + "]";
  };
  const int64_t most = int64_t{1} << 30;
  std::string error = between("size", batch.size, 0, most);
  if (error.empty()) error = between("width", batch.width, 1, most);
  if (error.empty()) {
    error = between("num_ignored", batch.num_ignored, 0, kMaxIgnored);
  }
  const TreeView& tree = batch.tree;
  if (error.empty()) {
    error = between("num_groups", tree.num_groups, 1, tree.num_rows);
  }
  if (error.empty()) error = between("depth", batch.shape.depth, 1, most);
  if (error.empty()) {
    error = between("max_fanout", batch.shape.max_fanout, 1, tree.num_rows);
  }
  return error;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_DISPATCH_H_
