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
// of s, up to kMaxColumns of them; parts without examples are skipped.

#ifndef TF_HSM_CC_CUDA_TILE_PRODUCT_H_
#define TF_HSM_CC_CUDA_TILE_PRODUCT_H_

#include <cstdint>

#include "cc/cuda/device/mma.h"
#include "cc/cuda/tile/tile.h"

namespace tf_hsm {
namespace gpu {

// Numbers between the rows of a tile of logits or coefficients in shared
// memory.
constexpr int kCoefficientStride = kTile + 4;

// Exact products of the stored values, in T's accumulator.
template <typename T>
class SimtProduct {
 public:
  using Weight = T;
  using A = Accumulator<T>;
  using Input = A;  // of x in shared memory
  static constexpr bool kTensorCores = false;

  TF_HSM_DEVICE void ClearLogits() {
    for (int j = 0; j < 4; ++j) z_[j] = 0;
  }

  // A thread has one row and every eighth example.
  TF_HSM_DEVICE void MultiplyLogits(const T* w, int w_stride, const Input* x,
                                    int x_stride, int columns, int,
                                    int examples) {
    const int row = ThreadIndex() / 8;
    const int example = ThreadIndex() % 8;
    for (int c = 0; c < columns; c += 4) {
      const Four<T> weights = LoadFour(w + row * w_stride + c);
      TF_HSM_UNROLL
      for (int j = 0; j < 4; ++j) {
        if (8 * j >= examples) break;
        const Four<A> inputs = LoadFour(x + (example + 8 * j) * x_stride + c);
        for (int i = 0; i < 4; ++i) {
          z_[j] += Widen(weights.values[i]) * inputs.values[i];
        }
      }
    }
  }

  // use(row, example, logit) for each of the caller's logits.
  template <typename Use>
  TF_HSM_DEVICE void ForEachLogit(const Use& use) const {
    TF_HSM_UNROLL
    for (int j = 0; j < 4; ++j) {
      use(ThreadIndex() / 8, ThreadIndex() % 8 + 8 * j, z_[j]);
    }
  }

  TF_HSM_DEVICE void ClearSums() {
    TF_HSM_UNROLL
    for (int c = 0; c < 2; ++c) {
      TF_HSM_UNROLL
      for (int i = 0; i < kTile; ++i) sums_[c][i] = 0;
    }
  }

  // s[i] *= factors[i].
  TF_HSM_DEVICE void ScaleSums(const A* factors, int count) {
    TF_HSM_UNROLL
    for (int i = 0; i < kTile; ++i) {
      if (i >= count) break;
      for (int c = 0; c < 2; ++c) sums_[c][i] *= factors[i];
    }
  }

  // A thread has two columns, kTileThreads apart.
  template <typename S>
  TF_HSM_DEVICE void AddSums(const A* coefficients, int count_k, int count_i,
                             const S* source, int stride, int columns) {
    const int column = ThreadIndex();
    if (column >= columns) return;
    const bool two = column + kTileThreads < columns;
    for (int k = 0; k < count_k; ++k) {
      const A first = Widen(source[k * stride + column]);
      const A second =
          two ? Widen(source[k * stride + column + kTileThreads]) : A(0);
      TF_HSM_UNROLL
      for (int i = 0; i < kTile; i += 4) {
        if (i >= count_i) break;
        const Four<A> c = LoadFour(coefficients + k * kCoefficientStride + i);
        for (int j = 0; j < 4; ++j) sums_[0][i + j] += c.values[j] * first;
        if (two) {
          for (int j = 0; j < 4; ++j) sums_[1][i + j] += c.values[j] * second;
        }
      }
    }
  }

  // use(i, column, sum) for each of the caller's sums.
  template <typename Use>
  TF_HSM_DEVICE void ForEachSum(int count, int columns, const Use& use) const {
    TF_HSM_UNROLL
    for (int c = 0; c < 2; ++c) {
      const int column = ThreadIndex() + c * kTileThreads;
      if (column >= columns) break;
      TF_HSM_UNROLL
      for (int i = 0; i < kTile; ++i) {
        if (i < count) use(i, column, sums_[c][i]);
      }
    }
  }

 private:
  A z_[4];
  A sums_[2][kTile];
};

// How T enters a matrix instruction.
template <typename T>
struct MmaOperand {                  // of 16 bits
  static constexpr int kDepth = 16;  // along k
  // Word of the numbers (k, k + 1), `step` apart.
  TF_HSM_DEVICE static uint32_t Word(const T* from, int step) {
    return Pack(from[0], from[step]);
  }
  TF_HSM_DEVICE static uint32_t Neighbours(const T* from) {
    return *reinterpret_cast<const uint32_t*>(from);
  }
  TF_HSM_DEVICE static uint32_t Round(const float* from, int step) {
    return Pack(Narrow<T>(from[0]), Narrow<T>(from[step]));
  }
};
template <>
struct MmaOperand<float> {
  static constexpr int kDepth = 8;
  TF_HSM_DEVICE static uint32_t Word(const float* from, int) {
    return ToTf32(*from);
  }
  TF_HSM_DEVICE static uint32_t Neighbours(const float* from) {
    return ToTf32(*from);
  }
  TF_HSM_DEVICE static uint32_t Round(const float* from, int) {
    return ToTf32(*from);
  }
};

// Products of values rounded to tf32 (T = float) or to T, sums in float32.
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

  // A warp has 16 rows and 8 examples.
  TF_HSM_DEVICE void MultiplyLogits(const T* w, int w_stride, const Input* x,
                                    int x_stride, int columns, int rows,
                                    int examples) {
    const int first_row = WarpIndex() / 4 * 16;
    const int first_example = WarpIndex() % 4 * 8;
    if (first_example >= examples || first_row >= rows) return;
    const int g = Lane() / 4, t = Lane() % 4 * kWords;
    const T* a_from = w + (first_row + g) * w_stride + t;
    const T* b_from = x + (first_example + g) * x_stride + t;
    for (int c = 0; c < columns; c += kDepth) {
      const uint32_t a[4] = {
          Operand::Neighbours(a_from + c),
          Operand::Neighbours(a_from + c + 8 * w_stride),
          Operand::Neighbours(a_from + c + 4 * kWords),
          Operand::Neighbours(a_from + c + 8 * w_stride + 4 * kWords)};
      const uint32_t b[2] = {Operand::Neighbours(b_from + c),
                             Operand::Neighbours(b_from + c + 4 * kWords)};
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

  // A warp has up to four times 16 columns, 128 apart.
  TF_HSM_DEVICE void AddSums(const float* coefficients, int count_k,
                             int count_i, const T* source, int stride,
                             int columns) {
    const int g = Lane() / 4, t = Lane() % 4 * kWords;
    for (int k = 0; k < count_k; k += kDepth) {
      uint32_t b[4][2];
      TF_HSM_UNROLL
      for (int n = 0; n < 4; ++n) {
        if (8 * n >= count_i) break;
        const float* from =
            coefficients + (k + t) * kCoefficientStride + 8 * n + g;
        b[n][0] = Operand::Round(from, kCoefficientStride);
        b[n][1] = Operand::Round(from + 4 * kWords * kCoefficientStride,
                                 kCoefficientStride);
      }
      TF_HSM_UNROLL
      for (int m = 0; m < 4; ++m) {
        const int column = WarpIndex() * 16 + m * 128;
        if (column >= columns) break;
        const T* from = source + (k + t) * stride + column + g;
        const uint32_t a[4] = {
            Operand::Word(from, stride), Operand::Word(from + 8, stride),
            Operand::Word(from + 4 * kWords * stride, stride),
            Operand::Word(from + 4 * kWords * stride + 8, stride)};
        TF_HSM_UNROLL
        for (int n = 0; n < 4; ++n) {
          if (8 * n >= count_i) break;
          Mma<T>(sums_[m][n], a, b[n]);
        }
      }
    }
  }

  template <typename Use>
  TF_HSM_DEVICE void ForEachSum(int count, int columns, const Use& use) const {
    TF_HSM_UNROLL
    for (int m = 0; m < 4; ++m) {
      TF_HSM_UNROLL
      for (int n = 0; n < 4; ++n) {
        TF_HSM_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int column =
              WarpIndex() * 16 + m * 128 + i / 2 * 8 + Lane() / 4;
          const int row = 8 * n + Lane() % 4 * 2 + i % 2;
          if (column < columns && row < count) {
            use(row, column, sums_[m][n][i]);
          }
        }
      }
    }
  }

 private:
  using Operand = MmaOperand<T>;
  static constexpr int kDepth = Operand::kDepth;
  static constexpr int kWords = 4 / static_cast<int>(sizeof(T));

  float z_[4];
  float sums_[4][4][4];
};

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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_PRODUCT_H_
