// Label smoothing s: the target of row k of a group is
//   (1 - s) [k is on the path] + s u_k
// with u_k = 1 / fanout, or the prior's. A group of one row has the target 1.

#ifndef TF_HSM_CC_CUDA_TILE_SMOOTHING_H_
#define TF_HSM_CC_CUDA_TILE_SMOOTHING_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

namespace tf_hsm {
namespace gpu {

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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_SMOOTHING_H_
