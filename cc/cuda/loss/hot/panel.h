// Panels of hot groups in shared memory: some numbers times some of k, either k
// inside, [across, depth], or k outside, [depth, across]: whichever way they
// lie in memory. Rows of a panel begin so far apart in the banks that no read
// collides.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_

#include <cstdint>
#include <type_traits>

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

// As LoadPanel. Each thread copies from every so many rows, always in the same
// columns. What CopyBytes allows divides `columns`: a copy is there as a whole
// or not at all.
template <int bytes, int threads, int panel_rows, int panel_columns, typename U>
TF_HSM_DEVICE void CopyPanel(const U* from, int64_t width, int rows,
                             int columns, int stride, U* to) {
  constexpr int kSize = static_cast<int>(sizeof(U));
  constexpr int kElements = bytes == 0 ? 1 : bytes / kSize;
  constexpr int kAcross = panel_columns / kElements;
  constexpr int kStep = threads / kAcross;
  const int first = ThreadIndex() / kAcross;
  const int column = ThreadIndex() % kAcross * kElements;
  const int own = column < columns ? rows - first : 0;
  const U* source = from + first * width + column;
  U* target = to + first * stride + column;
  const SharedAddress address = AddressOf(target);
  TF_HSM_UNROLL_4
  for (int row = 0; row < panel_rows; row += kStep) {
    if constexpr (bytes == 0) {
      target[row * stride] = row < own ? *source : U{};
    } else {
      CopyAsync<bytes>(address + row * stride * kSize, source,
                       row < own ? bytes : 0);
    }
    source += kStep * width;
  }
}

// Starts to load panel_rows x panel_columns numbers, of which `rows` x
// `columns` are there and the others 0, by copies of `copy_bytes` or, if that
// is 0, one by one.
template <int threads, int panel_rows, int panel_columns, typename U>
TF_HSM_DEVICE void LoadPanel(const U* from, int64_t width, int rows,
                             int columns, int copy_bytes, int stride, U* to) {
  auto copy = [&](auto bytes) {
    CopyPanel<decltype(bytes)::value, threads, panel_rows, panel_columns>(
        from, width, rows, columns, stride, to);
  };
  if (copy_bytes == 16) return copy(std::integral_constant<int, 16>());
  if (copy_bytes == 8) return copy(std::integral_constant<int, 8>());
  if (copy_bytes == 4) return copy(std::integral_constant<int, 4>());
  copy(std::integral_constant<int, 0>());
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_PANEL_H_
