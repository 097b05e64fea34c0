// What the products of tiles share (product.h): how their tile of logits lies
// in shared memory, and what they multiply.

#ifndef TF_HSM_CC_CUDA_TILE_PARTS_H_
#define TF_HSM_CC_CUDA_TILE_PARTS_H_

#include "cc/cuda/tile/tile.h"

namespace tf_hsm::gpu {

// Numbers between the rows of a tile of logits or coefficients in shared
// memory.
constexpr int kCoefficientStride = kTile + 4;

// The parts of the logits of example e are in the columns e + i * step() of a
// tile, below `end`.
struct Parts {
  int log_step;
  int end;

  TF_HSM_HOST_DEVICE int step() const { return 1 << log_step; }
  TF_HSM_HOST_DEVICE int count() const { return end >> log_step; }
  TF_HSM_HOST_DEVICE int Part(int column) const { return column >> log_step; }
  TF_HSM_HOST_DEVICE int Example(int column) const {
    return column & (step() - 1);
  }
};
constexpr Parts kWhole = {5, kTile};
static_assert(kTile == 1 << 5, "kWhole has one part");

// Weights come as they are stored, inputs as Product::Input.
enum class Source { kWeights, kInputs };

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_PARTS_H_
