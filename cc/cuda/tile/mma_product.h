// The products of product.h by matrix instructions.

#ifndef TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_
#define TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_

#include <cstdint>

#include "cc/cuda/device/mma.h"
#include "cc/cuda/tile/parts.h"

namespace tf_hsm {
namespace gpu {

// How T enters a matrix instruction.
template <typename T>
struct MmaOperand {                  // of 16 bits
  static constexpr int kDepth = 16;  // along k
  static constexpr int kNext = 8;    // from the k of a word to that of the next
  // Rounds the words of a fragment that are not yet.
  TF_HSM_DEVICE static void Round(uint32_t (&)[4]) {}
  // The word of two numbers, neighbours along k.
  TF_HSM_DEVICE static uint32_t Word(const float* from, int step) {
    const float low = LoadTogether(from), high = LoadTogether(from + step);
    return NarrowPair<T>(low, high);
  }
};
template <>
struct MmaOperand<float> {
  static constexpr int kDepth = 8;
  static constexpr int kNext = 1;  // see Transposed
  TF_HSM_DEVICE static void Round(uint32_t (&words)[4]) {
    TF_HSM_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = ToTf32(BitsFloat(words[i]));
  }
  TF_HSM_DEVICE static uint32_t Word(const float* from, int) {
    return ToTf32(LoadTogether(from));
  }
};

// Products of values rounded to tf32 (T = float) or to T, sums in float32. The
// inputs are rounded already (RoundOperand).
template <typename T>
class MmaProduct {
 public:
  using Weight = T;
  using A = float;
  using Input = T;
  static constexpr bool kTensorCores = true;

  TF_HSM_DEVICE void ClearLogits() {
    for (int i = 0; i < 4; ++i) z_[i] = 0;
  }

  TF_HSM_DEVICE static Parts PartsOf(int examples) {
    return {examples <= 8 ? 3 : examples <= 16 ? 4 : 5, kTile};
  }

  // A warp has 16 rows and 8 columns of the tile.
  TF_HSM_DEVICE void MultiplyLogits(const T* w, int w_stride, const Input* x,
                                    int x_stride, int columns, int rows,
                                    int examples, Parts parts) {
    const int first_row = WarpIndex() / 4 * 16;
    const int first_example = parts.Example(WarpIndex() % 4 * 8);
    const int part = parts.Part(WarpIndex() % 4 * 8);
    if (first_example >= examples || first_row >= rows) return;
    const T* a_from =
        w + (first_row + Lane() % 16) * w_stride + Lane() / 16 * 4 * kWords;
    const uint32_t* b_from = reinterpret_cast<const uint32_t*>(
        x + (first_example + Lane() / 4) * x_stride + Lane() % 4 * kWords);
    TF_HSM_UNROLL_4
    for (int c = part * kDepth; c < columns; c += parts.count() * kDepth) {
      uint32_t a[4];
      LoadMatrices<false>(a_from + c, a);
      Operand::Round(a);
      const uint32_t b[2] = {LoadTogether(b_from + c / kWords),
                             LoadTogether(b_from + c / kWords + 4)};
      Mma<T>(z_, a, b);
    }
  }

  template <typename Use>
  TF_HSM_DEVICE void ForEachLogit(const Use& use) const {
    const int row = WarpIndex() / 4 * 16 + Lane() / 4;
    const int example = WarpIndex() % 4 * 8 + Lane() % 4 * 2;
    TF_HSM_UNROLL
    for (int i = 0; i < 4; ++i) {
      use(row + i / 2 * 8, example + i % 2, z_[i]);
    }
  }

  TF_HSM_DEVICE void ClearSums() {
    TF_HSM_UNROLL
    for (int m = 0; m < 4; ++m) {
      TF_HSM_UNROLL
      for (int n = 0; n < 4; ++n) {
        for (int i = 0; i < 4; ++i) sums_[m][n][i] = 0;
      }
    }
  }

  TF_HSM_DEVICE void ScaleSums(const float* factors, int count) {
    TF_HSM_UNROLL
    for (int n = 0; n < 4; ++n) {
      if (8 * n >= count) break;
      const float even = factors[8 * n + Lane() % 4 * 2];
      const float odd = factors[8 * n + Lane() % 4 * 2 + 1];
      TF_HSM_UNROLL
      for (int m = 0; m < 4; ++m) {
        for (int i = 0; i < 4; ++i) sums_[m][n][i] *= i % 2 == 0 ? even : odd;
      }
    }
  }

  // A warp has up to four times 16 columns, 128 apart. The sources' rows are
  // the words' k in such an order that the rows of four lanes t are two apart:
  // then no loads collide.
  template <Source source_is>
  TF_HSM_DEVICE void AddSums(const float* coefficients, int count_k,
                             int count_i, const T* source, int stride,
                             int columns) {
    const int g = Lane() / 4, t = Lane() % 4;
    for (int k = 0; k < count_k; k += kDepth) {
      uint32_t b[4][2];
      TF_HSM_UNROLL
      for (int n = 0; n < 4; ++n) {
        if (8 * n >= count_i) break;
        const float* from =
            coefficients + (k + 2 * t) * kCoefficientStride + 8 * n + g;
        b[n][0] = Operand::Word(from, kCoefficientStride);
        b[n][1] = Operand::Word(from + Operand::kNext * kCoefficientStride,
                                kCoefficientStride);
      }
      // Two at a time, so that their loads are not one after the other.
      TF_HSM_UNROLL
      for (int m = 0; m < 4; m += 2) {
        const int first = WarpIndex() * 16 + m * 128;
        if (first >= columns) break;
        // One past the end is the first one again, and of no use.
        const bool two = first + 128 < columns;
        uint32_t a[2][4];
        const T* from = source + k * stride + first;
        Transposed(from, stride, a[0]);
        Transposed(two ? from + 128 : from, stride, a[1]);
        if constexpr (source_is == Source::kWeights) {
          Operand::Round(a[0]);
          Operand::Round(a[1]);
        }
        TF_HSM_UNROLL
        for (int n = 0; n < 4; ++n) {
          if (8 * n >= count_i) break;
          Mma<T>(sums_[m][n], a[0], b[n]);
          if (two) Mma<T>(sums_[m + 1][n], a[1], b[n]);
        }
      }
    }
  }

  template <typename Use>
  TF_HSM_DEVICE void ForEachSum(int count, int columns, const Use& use) const {
    TF_HSM_UNROLL
    for (int m = 0; m < 8; ++m) {
      const int column =
          WarpIndex() * 16 + m / 2 * 128 + m % 2 * 8 + Lane() / 4;
      if (column >= columns) break;
      TF_HSM_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int row = i / 2 * 8 + Lane() % 4 * 2 + i % 2;
        if (row < count)
          use(row, column, sums_[m / 2][i / 2][m % 2 * 2 + i % 2]);
      }
    }
  }

 private:
  using Operand = MmaOperand<T>;
  static constexpr int kDepth = Operand::kDepth;
  static constexpr int kWords = 4 / static_cast<int>(sizeof(T));

  // Loads 16 columns of kDepth rows as operand a. For tf32, the k of t and of
  // t + 4 are the rows 2t and 2t + 1.
  TF_HSM_DEVICE static void Transposed(const T* from, int stride,
                                       uint32_t (&a)[4]) {
    if constexpr (sizeof(T) == 2) {
      LoadMatrices<true>(
          from + (Lane() / 16 * 8 + Lane() % 8) * stride + Lane() / 8 % 2 * 8,
          a);
    } else {
      from += Lane() % 4 * 2 * stride + Lane() / 4;
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        a[i] = FloatBits(LoadTogether(from + i / 2 * stride + i % 2 * 8));
      }
    }
  }

  float z_[4];
  float sums_[4][4][4];
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_
