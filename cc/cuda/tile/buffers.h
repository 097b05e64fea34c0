// What Forward leaves for Backward, and scratch: where it lies in the two
// blocks of memory that a caller gives.

#ifndef TF_HSM_CC_CUDA_TILE_BUFFERS_H_
#define TF_HSM_CC_CUDA_TILE_BUFFERS_H_

#include <cstdint>

#include "cc/cuda/plan/plan.h"
#include "cc/cuda/tile/pass_terms.h"
#include "cc/cuda/tile/smoothing.h"
#include "cc/cuda/tile/tile.h"

namespace tf_hsm {
namespace gpu {

// A width in slabs that fit the shared memory of a block.
struct Slabs {
  int columns = 0;  // of all but the last
  int count = 0;
};

// Blocks and slabs of the kernels at large groups.
struct LaunchShape {
  int64_t blocks = 0;
  Slabs slabs;
  bool tensor_cores = false;
  int64_t forward_bytes = 0;  // of shared memory, the most of a block
  int64_t hot_items = 0;      // see BoundsOf
  int64_t forward_examples = kTileExamples;
};

// From one partial gradient of a row and its bias to the next: of whole 16
// bytes.
TF_HSM_HOST_DEVICE int64_t PartStride(int64_t width) {
  return RoundUp(width + 1, 4);
}

// See SizesOf in gpu.h for the meaning of state and scratch.
template <typename T>
struct Buffers {
  using A = Accumulator<T>;
  Bounds bounds;
  DevicePlan plan;
  Smoothing<A> smoothing;
  // State.
  A* x = nullptr;            // [size, width], sorted; null: only operands
  T* operands = nullptr;     // the same, rounded, for tensor cores
  A* normalizers = nullptr;  // [passes, 2]: max m, 1 / sum exp(z - m); large
  A* small_dz = nullptr;     // [passes, small_fanout], for a loss_grad of 1
  A* logits = nullptr;       // [bounds.logits]
  // Scratch of the forward.
  PlanScratch plan_scratch;
  Item* forward_items = nullptr;
  int32_t* pass_nodes = nullptr;  // [passes]: node of a large pass
  A* target_logits = nullptr;     // [passes], of the row on the path; large
  A* partial_sums = nullptr;      // [forward_slots, 2]: m, sum exp(z - m)
  A* partial_rows = nullptr;      // [forward_slots, width]: expected rows
  // Scratch of both, where labels are smoothed: see node_sums.h.
  A* node_sums = nullptr;  // [forward_items, PartStride(width)]
  // Scratch of the backward.
  Item* backward_items = nullptr;  // see BackwardLists
  Item* small_items = nullptr;
  PassTerms<A>* pass_terms = nullptr;  // [passes]; large
  A* merge = nullptr;  // [merge_slots, PartStride(width)], db after dW
  // [blocks, kTile, width] with several slabs, [blocks, kHotTile, width] where
  // nodes may be hot.
  A* block_rows = nullptr;
};

// x as the product reads it.
template <typename Product>
TF_HSM_HOST_DEVICE const typename Product::Input* InputsOf(
    const Buffers<typename Product::Weight>& buffers) {
  if constexpr (Product::kTensorCores) {
    return buffers.operands;
  } else {
    return buffers.x;
  }
}

// Hands out parts of a block of memory, each aligned to 256 bytes; from null,
// only counts.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}

  template <typename V>
  void Take(int64_t count, V** part) {
    *part = base_ == nullptr ? nullptr : reinterpret_cast<V*>(base_ + bytes_);
    bytes_ += RoundUp(Larger<int64_t>(count, 1) * sizeof(V), 256);
  }
  void Take(int64_t bytes, void** part) {
    Take(bytes, reinterpret_cast<char**>(part));
  }
  int64_t bytes() const { return bytes_; }
  // Starts again for something else that is not there at the same time.
  void Rewind() { bytes_ = 0; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

// Lays the buffers out; returns the sizes.
template <typename T>
MemorySizes LayOut(const Batch<T>& batch, const Memory& memory,
                   const LaunchShape& shape, Buffers<T>* buffers) {
  using A = Accumulator<T>;
  Buffers<T>& b = *buffers;
  b.bounds = BoundsOf(batch.tree, batch.shape, batch.size,
                      memory.logits_bytes / static_cast<int64_t>(sizeof(A)),
                      shape.hot_items, shape.forward_examples);
  const Bounds& bounds = b.bounds;
  b.smoothing = {batch.label_smoothing, batch.smoothing_prior};
  const bool smooths = batch.label_smoothing > 0;
  const int64_t sums =
      smooths ? bounds.forward_items * PartStride(batch.width) : 0;
  MemorySizes sizes;
  Arena state(memory.state);
  b.plan.size = batch.size;
  state.Take(1, &b.plan.counts);
  state.Take(batch.size, &b.plan.order);
  state.Take(batch.size, &b.plan.depths);
  state.Take(bounds.passes, &b.plan.path_rows);
  state.Take(bounds.nodes, &b.plan.nodes);
  state.Take(bounds.nodes, &b.plan.totals);
  state.Take(bounds.nodes, &b.plan.work);
  const int64_t inputs = batch.size * batch.width;
  if (!shape.tensor_cores || batch.shape.small_fanout > 0 || smooths) {
    state.Take(inputs, &b.x);
  }
  if (shape.tensor_cores) state.Take(inputs, &b.operands);
  state.Take(batch.shape.large_depth > 0 ? 2 * bounds.passes : 0,
             &b.normalizers);
  state.Take(bounds.passes * batch.shape.small_fanout, &b.small_dz);
  state.Take(bounds.logits, &b.logits);
  const bool hot = bounds.hot_items > 0;
  sizes.state = state.bytes();

  Arena scratch(memory.scratch);
  scratch.Take(sums, &b.node_sums);
  PlanScratch& p = b.plan_scratch;
  const int64_t most = Larger(batch.size, bounds.nodes);
  scratch.Take(most, &p.keys);
  scratch.Take(most, &p.sorted_keys);
  scratch.Take(most, &p.values);
  scratch.Take(most, &p.sorted_values);
  scratch.Take(batch.size, &p.depths);
  scratch.Take(batch.size, &p.opened);
  scratch.Take(batch.size, &p.opened_sums);
  scratch.Take(bounds.nodes, &p.unsorted);
  scratch.Take(bounds.nodes, &p.totals);
  scratch.Take(bounds.nodes, &p.work);
  p.sort_bytes = SortBytes(batch.tree, batch.size, bounds);
  scratch.Take(p.sort_bytes, &p.sort);
  const bool large = batch.shape.large_depth > 0;
  scratch.Take(bounds.forward_items, &b.forward_items);
  scratch.Take(large ? bounds.passes : 0, &b.pass_nodes);
  scratch.Take(large ? bounds.passes : 0, &b.target_logits);
  scratch.Take(2 * bounds.forward_slots, &b.partial_sums);
  scratch.Take(bounds.forward_slots * batch.width, &b.partial_rows);
  sizes.scratch = scratch.bytes();
  scratch.Rewind();
  scratch.Take(sums, &b.node_sums);  // the same place
  scratch.Take(bounds.backward_items, &b.backward_items);
  scratch.Take(bounds.small_items, &b.small_items);
  scratch.Take(large ? bounds.passes : 0, &b.pass_terms);
  scratch.Take(bounds.merge_slots * PartStride(batch.width), &b.merge);
  const int64_t block_rows = hot ? kHotTile : shape.slabs.count > 1 ? kTile : 0;
  scratch.Take(shape.blocks * block_rows * batch.width, &b.block_rows);
  sizes.scratch = Larger(sizes.scratch, scratch.bytes());
  return sizes;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_BUFFERS_H_
