// The largest term of dz among some examples: what dz is divided by where it is
// rounded to few exponents.

#ifndef TF_HSM_CC_CUDA_TILE_LARGEST_GRAD_H_
#define TF_HSM_CC_CUDA_TILE_LARGEST_GRAD_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {

// By all threads of a block, for dz that is at most twice as large; 1 if all
// are 0. No less than 1e-30, so that a scale divided by it is finite. `shared`
// has a number per warp, which the threads may not use before and after without
// a barrier of theirs.
template <typename A>
TF_HSM_DEVICE A LargestGrad(const PassTerms<A>* terms, int count, A* shared) {
  A most = 0;
  for (int e = ThreadIndex(); e < count; e += NumThreads()) {
    most = Max(most, Max(Abs(terms[e].scale), Abs(terms[e].grad)));
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    most = Max(most, ShuffleXor(most, lanes));
  }
  if (Lane() == 0) shared[WarpIndex()] = most;
  SyncBlock();
  for (int i = 0; i < NumThreads() / kWarp; ++i) most = Max(most, shared[i]);
  SyncBlock();
  return most > 0 ? Max(most, A(1e-30)) : A(1);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_LARGEST_GRAD_H_
