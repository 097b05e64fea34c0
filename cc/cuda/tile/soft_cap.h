// A bound of the logits of a flat tree, as a kernel gets it.

#ifndef TF_HSM_CC_CUDA_TILE_SOFT_CAP_H_
#define TF_HSM_CC_CUDA_TILE_SOFT_CAP_H_

#include "cc/cuda/device/convert.h"

namespace tf_hsm::gpu {

// The logit c tanh(u / c) of u = w x + b. What is kept, and what all but the
// products read, are these logits.
template <typename A>
struct SoftCap {
  SoftCap() = default;
  explicit SoftCap(A c) : most(c), one_over(c > 0 ? 1 / c : A(0)) {}

  TF_HSM_DEVICE A Logit(A value) const {
    return most > 0 ? most * Tanh(value * one_over) : value;
  }
  // The derivative of the logit by u; 0 for the minus infinity that stands for
  // no logit.
  TF_HSM_DEVICE A Slope(A logit) const {
    if (!(most > 0)) return 1;
    const A share = logit * one_over;
    return Max((1 - share) * (1 + share), A(0));
  }

  A most = 0;  // c; 0: none
  A one_over = 0;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_SOFT_CAP_H_
