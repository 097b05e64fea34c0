// Panels of hot groups in shared memory: some numbers times some of k, either k
// inside, [across, depth], or k outside, [depth, across]: whichever way they
// lie in memory. Rows of a panel begin so far apart in the banks that no read
// collides.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_

#include <cstdint>

#include "cc/cuda/device/mma.h"
#include "cc/cuda/tile/mma_product.h"

namespace tf_hsm::gpu {

enum class Depth { kInside, kOutside };

// Elements of U between the rows of a panel, and in all of it. `across` is a
// multiple of 64.
template <typename U>
TF_HSM_HOST_DEVICE constexpr int PanelStride(Depth k, int depth, int across) {
  return k == Depth::kInside ? depth + 16 / static_cast<int>(sizeof(U))
                             : across + 8;
}
template <typename U>
TF_HSM_HOST_DEVICE constexpr int PanelSize(Depth k, int depth, int across) {
  return (k == Depth::kInside ? across : depth) *
         PanelStride<U>(k, depth, across);
}

// Loads 16 numbers of a panel from `first` on, times 32 bytes along k, as
// operand a or as two operands b: four matrices of 8 numbers x 16 bytes. The
// second eight numbers are the matrices 1 and 3 of a, 2 and 3 of b.
template <typename T, Depth depth, bool is_a, int stride>
class Fragments {
 public:
  TF_HSM_DEVICE Fragments(const T* panel, int first, int k) {
    constexpr int kHalf = kStep / 2;
    const int matrix = Lane() / 8;
    const int index = first + (is_a ? matrix % 2 : matrix / 2) * 8;
    const int half_k = k + (is_a ? matrix / 2 : matrix % 2) * kHalf;
    if constexpr (depth == Depth::kInside) {
      panel += (index + Lane() % 8) * stride + half_k;
    } else if constexpr (sizeof(T) == 2) {
      panel += (half_k + Lane() % 8) * stride + index;
    } else {
      panel += (k + Lane() % 4) * stride + first + Lane() / 4;
    }
    from_ = panel;
  }

  // Numbers `offset` further, a multiple of 16.
  TF_HSM_DEVICE void Load(int offset, uint32_t (&words)[4]) const {
    if constexpr (depth == Depth::kInside) {
      LoadMatrices<false>(AddressOf(from_) + offset * stride * kSize, words);
    } else if constexpr (sizeof(T) == 2) {
      LoadMatrices<true>(AddressOf(from_) + offset * kSize, words);
    } else {
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int half = is_a ? i % 2 : i / 2;
        const int half_k = is_a ? i / 2 : i % 2;
        words[i] = FloatBits(
            LoadTogether(from_ + half_k * 4 * stride + half * 8 + offset));
      }
    }
  }

  TF_HSM_DEVICE void Next() {
    from_ += depth == Depth::kInside ? kStep : kStep * stride;
  }

 private:
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr int kStep = MmaOperand<T>::kDepth;  // along k
  const T* from_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_
