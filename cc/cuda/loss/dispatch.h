// Which product serves a batch, and the shape of the launches that follow from
// it.

#ifndef TF_HSM_CC_CUDA_LOSS_DISPATCH_H_
#define TF_HSM_CC_CUDA_LOSS_DISPATCH_H_

#include <cstdint>

#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/large_backward.h"
#include "cc/cuda/loss/large_forward.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm::gpu {

template <typename T>
bool UsesTensorCores(const Batch<T>& batch, const DeviceLimits& device) {
  return kSumsInFloat<T> && device.has_tensor_cores &&
         batch.precision == Precision::kTensorCores;
}

template <typename P>
struct ProductName {
  using Product = P;
};

// use(ProductName) with the name of the product that serves the batch.
template <typename T, typename Use>
auto WithProduct(const Batch<T>& batch, const DeviceLimits& device,
                 const Use& use) {
  if constexpr (kSumsInFloat<T>) {
    if (UsesTensorCores(batch, device)) {
      return use(ProductName<MmaProduct<T>>());
    }
  }
  return use(ProductName<SimtProduct<T>>());
}

// The fewest slabs whose tiles fit the shared memory of a block.
template <typename T>
Slabs SlabsOf(const Batch<T>& batch, const DeviceLimits& device) {
  return WithProduct(batch, device, [&](auto name) {
    using Product = typename decltype(name)::Product;
    Slabs slabs;
    for (slabs.count = 1;; ++slabs.count) {
      slabs.columns = static_cast<int>(
          RoundUp(CeilDivide(batch.width, slabs.count), kColumnStep));
      if (slabs.columns <= kMaxColumns &&
          ForwardSharedBytes<Product>(slabs.columns, 2) <=
              device.shared_bytes &&
          BackwardSharedBytes<Product>(slabs.columns) <= device.shared_bytes) {
        slabs.count = static_cast<int>(CeilDivide(batch.width, slabs.columns));
        return slabs;
      }
    }
  });
}

// Lets as many blocks of the forward onto a multiprocessor as the registers of
// the product allow, with items of half as many examples where that is needed
// and does.
template <typename T>
void ShapeForward(const Batch<T>& batch, const DeviceLimits& device,
                  LaunchShape* shape) {
  constexpr int64_t kReserved = 1 << 10;  // of each block, by the driver
  WithProduct(batch, device, [&](auto name) {
    using Product = typename decltype(name)::Product;
    const int columns = shape->slabs.columns;
    const int64_t share =
        (device.shared_bytes + kReserved) / Product::kBlocks - kReserved;
    const int64_t all = ForwardSharedBytes<Product>(columns, 2);
    const int64_t inputs = TileBytes<typename Product::Input>(columns);
    const bool fits = all - inputs / 2 <= share;
    shape->forward_bytes = fits ? share : device.shared_bytes;
    if (fits && all > share) shape->forward_examples = kTileExamples / 2;
  });
}

template <typename T>
LaunchShape ShapeOf(const Batch<T>& batch, const DeviceLimits& device) {
  LaunchShape shape;
  // All blocks that can run at once, of a kernel with two on a multiprocessor.
  shape.blocks = int64_t{device.num_processors} * 2;
  shape.slabs = SlabsOf(batch, device);
  shape.tensor_cores = UsesTensorCores(batch, device);
  ShapeForward(batch, device, &shape);
  if (kSumsInFloat<T> && batch.size > kMaxStreamExamples &&
      batch.shape.large_depth > 0 &&
      device.shared_bytes >= HotSharedBytes(shape.tensor_cores)) {
    shape.hot_items = Smaller(kMaxHotItems, 2 * shape.blocks);
  }
  return shape;
}

// Examples of a chunk (chunks.h); 0: the batch is whole, and the last examples
// may have no room, as few as make no group hot.
template <typename T>
int64_t ChunkExamples(const Batch<T>& batch, int64_t logits_bytes) {
  const bool is_flat = batch.tree.num_groups == 1 && batch.visits == nullptr;
  if (!is_flat || ShapeOf(batch, CurrentDevice()).hot_items == 0) return 0;
  const int64_t bytes =
      LogitsStride(batch.shape.max_fanout) * sizeof(Accumulator<T>);
  const int64_t fit = logits_bytes / bytes / kHotTile * kHotTile;
  if (fit == 0 || batch.size - fit <= kMaxStreamExamples) return 0;
  const int64_t count = CeilDivide(batch.size, fit);
  return RoundUp(CeilDivide(batch.size, count), kHotTile);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_DISPATCH_H_
