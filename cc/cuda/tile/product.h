// The two products of tiles that the forward and the backward at large groups
// are made of, by ordinary arithmetic or by matrix instructions.
//
//   logits:  z [rows, examples] += W tile [rows, D] (x tile [examples, D])^T
//   sums:    s [i, D] += C [k, i]^T  source [k, D]
//
// In the forward, C is the tile of exp(z - m), k its rows, i its examples, and
// the source W: s is the expected row. In the backward, C is dz, k its
// examples, i its rows, and the source x: s is dW. z and s stay in registers.
// A block of kTileThreads threads works on one 32 x 32 tile of z and on 32 rows
// of s, up to kMaxColumns of them; parts without examples are skipped. Where
// few examples would leave threads idle, `Parts` lets them share out D: a logit
// is then the sum of several columns of the tile of z.

#ifndef TF_HSM_CC_CUDA_TILE_PRODUCT_H_
#define TF_HSM_CC_CUDA_TILE_PRODUCT_H_

#include "cc/cuda/tile/mma_product.h"
#include "cc/cuda/tile/simt_product.h"

namespace tf_hsm::gpu {

// What coefficients in [-1, 1] are multiplied by before they are rounded to T:
// half has no small numbers to speak of.
template <typename Product>
struct CoefficientScale {
  static constexpr float value = 1;
};
template <>
struct CoefficientScale<MmaProduct<half>> {
  static constexpr float value = 16384;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_PRODUCT_H_
