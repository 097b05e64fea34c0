// The products of product.h by matrix instructions.

#ifndef TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_
#define TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/device/mma.h"
#include "cc/cuda/tile/tile.h"

namespace tf_hsm::gpu {

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
  static constexpr int kBlocks = 2;  // of a multiprocessor

  TF_HSM_DEVICE static A Exp(A value) { return FastExp(value); }

  TF_HSM_DEVICE void ClearLogits() {
    for (int i = 0; i < 4; ++i) z_[i] = 0;
  }

  TF_HSM_DEVICE static Parts PartsOf(int examples) {
    return {examples <= 8 ? 3 : examples <= 16 ? 4 : 5, kTile};
  }

  // A warp has 16 rows and 8 columns of the tile. With two blocks on a
  // multiprocessor there are no registers for the fragments of a second turn:
  // other warps multiply while one loads.
  TF_HSM_DEVICE void MultiplyLogits(const T* w, int w_stride, const Input* x,
                                    int x_stride, int columns, int rows,
                                    int examples, Parts parts) {
    const int warp = ShuffleFrom(WarpIndex(), 0);
    const int first_row = warp / 4 * 16;
    const int first_example = parts.Example(warp % 4 * 8);
    const int step = parts.count() * kTurn;
    int c = parts.Part(warp % 4 * 8) * kTurn;
    if (first_example >= examples || first_row >= rows || c >= columns) return;
    SharedAddress a = AddressOf(w + (first_row + Lane() % 16) * w_stride +
                                Lane() / 16 * kChunk + c);
    SharedAddress b = AddressOf(x + (first_example + Lane() % 8) * x_stride +
                                Lane() / 8 * kChunk + c);
    const int bytes = step * static_cast<int>(sizeof(T));
    float odd[4] = {};
    TF_HSM_NO_UNROLL
    for (; c < columns; c += step) {
      Turn turn;
      turn.Load(a, b);
      turn.Multiply(z_, odd);
      a += bytes;
      b += bytes;
    }
    for (int i = 0; i < 4; ++i) z_[i] += odd[i];
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
      if (!AnyLane(even != 1 || odd != 1)) continue;  // no new maximum
      TF_HSM_UNROLL
      for (int m = 0; m < 4; ++m) {
        for (int i = 0; i < 4; ++i) sums_[m][n][i] *= i % 2 == 0 ? even : odd;
      }
    }
  }

  template <Source source_is>
  TF_HSM_DEVICE void AddSums(const float* coefficients, int count_k,
                             int count_i, const T* source, int stride,
                             int columns) {
    auto add = [&](auto count_n) {
      AddSumsOf<source_is, decltype(count_n)::value>(coefficients, count_k,
                                                     source, stride, columns);
    };
    if (count_i <= 8) return add(std::integral_constant<int, 1>());
    if (count_i <= 16) return add(std::integral_constant<int, 2>());
    add(std::integral_constant<int, 4>());
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

  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));
  static constexpr int kTurn = 2 * kDepth;

  // Fragments of two steps along k, of 64 bytes of each row.
  struct Turn {
    uint32_t a[2][4], b[4];

    TF_HSM_DEVICE void Load(SharedAddress w, SharedAddress x) {
      LoadMatrices<false>(w, a[0]);
      LoadMatrices<false>(w + 32, a[1]);
      LoadMatrices<false>(x, b);
    }
    TF_HSM_DEVICE void Multiply(float (&even)[4], float (&odd)[4]) {
      Operand::Round(a[0]);
      Operand::Round(a[1]);
      const uint32_t b_even[2] = {b[0], b[1]}, b_odd[2] = {b[2], b[3]};
      Mma<T>(even, a[0], b_even);
      Mma<T>(odd, a[1], b_odd);
    }
  };

  // A warp has up to four times 16 columns, 128 apart. The sources' rows are
  // the words' k in such an order that the rows of four lanes t are two apart:
  // then no loads collide.
  template <Source source_is, int count_n>
  TF_HSM_DEVICE void AddSumsOf(const float* coefficients, int count_k,
                               const T* source, int stride, int columns) {
    const int g = Lane() / 4, t = Lane() % 4;
    const int first = ShuffleFrom(WarpIndex(), 0) * 16;
    const float* b_from = coefficients + 2 * t * kCoefficientStride + g;
    const T* a_from = source + first + OwnNumber(stride);
    TF_HSM_NO_UNROLL
    for (int k = 0; k < count_k; k += kDepth) {
      uint32_t b[count_n][2];
      TF_HSM_UNROLL
      for (int n = 0; n < count_n; ++n) {
        b[n][0] = Operand::Word(b_from + 8 * n, kCoefficientStride);
        b[n][1] =
            Operand::Word(b_from + 8 * n + Operand::kNext * kCoefficientStride,
                          kCoefficientStride);
      }
      // Two at a time, so that their loads are not one after the other.
      TF_HSM_UNROLL
      for (int m = 0; m < 4; m += 2) {
        if (first + m * 128 >= columns) break;
        const bool two = first + m * 128 + 128 < columns;
        uint32_t a[2][4] = {};
        Transposed<source_is>(a_from + m * 128, stride, a[0]);
        if (two) Transposed<source_is>(a_from + m * 128 + 128, stride, a[1]);
        TF_HSM_UNROLL
        for (int n = 0; n < count_n; ++n) Mma<T>(sums_[m][n], a[0], b[n]);
        if (!two) break;
        TF_HSM_UNROLL
        for (int n = 0; n < count_n; ++n) Mma<T>(sums_[m + 1][n], a[1], b[n]);
      }
      b_from += kDepth * kCoefficientStride;
      a_from += kDepth * stride;
    }
  }

  // What Transposed begins with, from the first number of 16 columns of kDepth
  // rows.
  TF_HSM_DEVICE static int OwnNumber(int stride) {
    return sizeof(T) == 2
               ? (Lane() / 16 * 8 + Lane() % 8) * stride + Lane() / 8 % 2 * 8
               : Lane() % 4 * 2 * stride + Lane() / 4;
  }

  // Loads 16 columns of kDepth rows as operand a. For tf32, the k of t and of
  // t + 4 are the rows 2t and 2t + 1.
  template <Source source_is>
  TF_HSM_DEVICE static void Transposed(const T* from, int stride,
                                       uint32_t (&a)[4]) {
    if constexpr (sizeof(T) == 2) {
      LoadMatrices<true>(AddressOf(from), a);
    } else {
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        a[i] = FloatBits(LoadTogether(from + i / 2 * stride + i % 2 * 8));
      }
    }
    if constexpr (source_is == Source::kWeights) Operand::Round(a);
  }

  float z_[4];
  float sums_[4][4][4];
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_MMA_PRODUCT_H_
