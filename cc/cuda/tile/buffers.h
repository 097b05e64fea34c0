// What Forward leaves for Backward, and scratch: where it lies in the two
// blocks of memory that a caller gives.

#ifndef TF_HSM_CC_CUDA_TILE_BUFFERS_H_
#define TF_HSM_CC_CUDA_TILE_BUFFERS_H_

#include <cstdint>

#include "cc/cuda/device/arena.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/plan/plan.h"
#include "cc/cuda/plan/visits.h"
#include "cc/cuda/tile/soft_cap.h"
#include "cc/cuda/tile/tile.h"

namespace tf_hsm::gpu {

// What the kernels of large groups make gradients of logits from: a few numbers
// for each example and large group on its path, side by side, so that a block
// copies them without a chain of loads.
//
// dz = scale exp(z - max) - [row is on the path] grad,
// but for the part of smoothed labels that node_sums.h subtracts, and times the
// slope of a soft cap. In a label tree, dz is `grad` times what the forward
// kept.
template <typename A>
struct alignas(16) PassTerms {
  A max;
  A scale;  // grad / sum exp(z - max), times the growth by a z-loss
  A grad;   // of the loss, times 1 - s where labels are smoothed by s
  // The low 32 bits of the number of the row on the path. No group has 2^32
  // rows (CheckBatch), so they tell its rows apart.
  uint32_t target;
};

// Starts to copy terms to shared memory, zeros unless they are `wanted`.
template <typename A>
TF_HSM_DEVICE void CopyTerms(const PassTerms<A>* from, bool wanted,
                             PassTerms<A>* to) {
  TF_HSM_UNROLL
  for (int at = 0; at < static_cast<int>(sizeof(*to)); at += 16) {
    CopyAsync<16>(AddressOf(to) + at, reinterpret_cast<const char*>(from) + at,
                  wanted ? 16 : 0);
  }
}

// The terms of all passes. `normalizers` [passes, 2] are what the forward left
// at large groups, null in a label tree; terms of other passes are never read.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
MakePassTerms(DevicePlan plan, int64_t passes, const A* normalizers,
              const A* loss_grads, A smoothing, PassTerms<A>* terms) {
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < passes;
       i += NumBlocks() * NumThreads()) {
    const A grad = loss_grads[plan.order[i % plan.size]];
    if (normalizers == nullptr) {
      terms[i] = {0, grad, grad, 0};
      continue;
    }
    terms[i] = {normalizers[2 * i], normalizers[2 * i + 1] * grad,
                (1 - smoothing) * grad,
                static_cast<uint32_t>(plan.path_rows[i])};
  }
}

// Label smoothing s: the target of row k of a group is
//   (1 - s) [k is on the path] + s u_k
// with u_k = 1 / fanout, or the prior's. A group of one row has the target 1.
template <typename A>
struct Smoothing {
  A amount = 0;                  // s; 0: none
  const float* prior = nullptr;  // u [rows of the tree]; null: even

  // u of a row of a group of `fanout` rows.
  TF_HSM_DEVICE A Share(int64_t row, int64_t fanout) const {
    return prior == nullptr ? A(1) / fanout : A(prior[row]);
  }
  // The expected logit under the target. At s = 1 the label's logit, which may
  // be infinite, is left out.
  TF_HSM_DEVICE A Target(A label, A mean) const {
    return (amount < 1 ? (1 - amount) * label : A(0)) + amount * mean;
  }
};

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
  SoftCap<A> soft_cap;
  VisitLists visits;
  // State.
  A* x = nullptr;         // [size, width], sorted; null: only operands
  T* operands = nullptr;  // the same, rounded, for tensor cores
  // [passes, 2]: max m, (1 + 2 z_loss lse) / sum exp(z - m); large
  A* normalizers = nullptr;
  A* small_dz = nullptr;  // [passes, small_fanout], for a loss_grad of 1
  A* logits = nullptr;    // [bounds.logits]; in a label tree, as small_dz
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

// Whether the rows of large groups have sigmoids.
template <typename T>
TF_HSM_HOST_DEVICE bool HasSigmoids(const Buffers<T>& buffers) {
  return buffers.visits.positive_starts != nullptr;
}

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

// The parts of a plan that MakePlan makes.
inline void TakePlan(int64_t size, const Bounds& bounds, Arena* arena,
                     DevicePlan* plan) {
  plan->size = size;
  arena->Take(1, &plan->counts);
  arena->Take(size, &plan->order);
  arena->Take(size, &plan->depths);
  arena->Take(bounds.passes, &plan->path_rows);
  arena->Take(bounds.nodes, &plan->nodes);
  arena->Take(bounds.nodes, &plan->totals);
  arena->Take(bounds.nodes, &plan->work);
}

// And what it uses.
inline void TakePlanScratch(const TreeView& tree, int64_t size,
                            const Bounds& bounds, Arena* arena,
                            PlanScratch* scratch) {
  const int64_t most = Larger(size, bounds.nodes);
  arena->Take(most, &scratch->keys);
  arena->Take(most, &scratch->sorted_keys);
  arena->Take(most, &scratch->values);
  arena->Take(most, &scratch->sorted_values);
  arena->Take(size, &scratch->depths);
  arena->Take(size, &scratch->opened);
  arena->Take(size, &scratch->opened_sums);
  arena->Take(bounds.nodes, &scratch->unsorted);
  arena->Take(bounds.nodes, &scratch->totals);
  arena->Take(bounds.nodes, &scratch->work);
  scratch->sort_bytes = SortBytes(tree, size, bounds);
  arena->Take(scratch->sort_bytes, &scratch->sort);
}

// Lays the buffers out; returns the sizes.
template <typename T>
MemorySizes LayOut(const Batch<T>& batch, const Memory& memory,
                   const LaunchShape& shape, Buffers<T>* buffers) {
  using A = Accumulator<T>;
  Buffers<T>& b = *buffers;
  const Bounds& bounds = b.bounds;
  const auto* visits = static_cast<const VisitHeader*>(batch.visits);
  MemorySizes sizes;
  Arena state(memory.state);
  Arena scratch(memory.scratch);
  if (visits != nullptr) {
    b.bounds = visits->bounds;
    LayOutVisits(*visits, batch.device_visits, &b.plan, &b.visits);
  } else {
    b.bounds = BoundsOf(batch.tree, batch.shape, batch.size,
                        memory.logits_bytes / static_cast<int64_t>(sizeof(A)),
                        shape.hot_items, shape.forward_examples);
    TakePlan(batch.size, bounds, &state, &b.plan);
  }
  b.smoothing = {batch.label_smoothing, batch.smoothing_prior};
  b.soft_cap = SoftCap<A>(batch.logit_soft_cap);
  const bool smooths = batch.label_smoothing > 0;
  const int64_t sums =
      smooths ? bounds.forward_items * PartStride(batch.width) : 0;
  const int64_t inputs = batch.size * batch.width;
  if (!shape.tensor_cores || batch.shape.small_fanout > 0 || smooths) {
    state.Take(inputs, &b.x);
  }
  if (shape.tensor_cores) state.Take(inputs, &b.operands);
  const int64_t large_passes = batch.shape.large_depth > 0 ? bounds.passes : 0;
  if (visits == nullptr) state.Take(2 * large_passes, &b.normalizers);
  state.Take(bounds.passes * batch.shape.small_fanout, &b.small_dz);
  state.Take(bounds.logits, &b.logits);
  const bool hot = bounds.hot_items > 0;
  sizes.state = state.bytes();

  scratch.Take(sums, &b.node_sums);
  if (visits == nullptr) {
    TakePlanScratch(batch.tree, batch.size, bounds, &scratch, &b.plan_scratch);
    scratch.Take(large_passes, &b.target_logits);
  }
  scratch.Take(bounds.forward_items, &b.forward_items);
  scratch.Take(large_passes, &b.pass_nodes);
  scratch.Take(2 * bounds.forward_slots, &b.partial_sums);
  scratch.Take(bounds.forward_slots * batch.width, &b.partial_rows);
  sizes.forward_scratch = scratch.bytes();
  scratch.Rewind();
  scratch.Take(sums, &b.node_sums);  // the same place
  scratch.Take(bounds.backward_items, &b.backward_items);
  scratch.Take(bounds.small_items, &b.small_items);
  scratch.Take(large_passes, &b.pass_terms);
  scratch.Take(bounds.merge_slots * PartStride(batch.width), &b.merge);
  const int64_t block_rows = hot ? kHotTile : shape.slabs.count > 1 ? kTile : 0;
  scratch.Take(shape.blocks * block_rows * batch.width, &b.block_rows);
  sizes.backward_scratch = scratch.bytes();
  return sizes;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_BUFFERS_H_
