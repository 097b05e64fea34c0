// What the kernels of large groups make gradients of logits from: a few numbers
// for each example and large group on its path, side by side, so that a block
// copies them without a chain of loads.

#ifndef TF_HSM_CC_CUDA_TILE_PASS_TERMS_H_
#define TF_HSM_CC_CUDA_TILE_PASS_TERMS_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm {
namespace gpu {

// dz = scale exp(z - max) - [row is on the path] grad,
// but for the part of smoothed labels that node_sums.h subtracts.
template <typename A>
struct alignas(16) PassTerms {
  A max;
  A scale;  // grad / sum exp(z - max)
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
// at large groups; terms of other passes are never read.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
MakePassTerms(DevicePlan plan, int64_t passes, const A* normalizers,
              const A* loss_grads, A smoothing, PassTerms<A>* terms) {
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < passes;
       i += NumBlocks() * NumThreads()) {
    const A grad = loss_grads[plan.order[i % plan.size]];
    terms[i] = {normalizers[2 * i], normalizers[2 * i + 1] * grad,
                (1 - smoothing) * grad,
                static_cast<uint32_t>(plan.path_rows[i])};
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_PASS_TERMS_H_
