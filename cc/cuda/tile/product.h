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
#include "cc/cuda/tile/tile.h"

namespace tf_hsm::gpu {

// Exact products of the stored values, in T's accumulator.
template <typename T>
class SimtProduct {
 public:
  using Weight = T;
  using A = Accumulator<T>;
  using Input = A;  // of x in shared memory
  static constexpr bool kTensorCores = false;
  static constexpr int kBlocks = sizeof(A) == 8 ? 1 : 2;  // of a multiprocessor

  TF_HSM_DEVICE static A Exp(A value) { return gpu::Exp(value); }

  TF_HSM_DEVICE void ClearLogits() {
    for (int j = 0; j < 4; ++j) z_[j] = 0;
  }

  TF_HSM_DEVICE static Parts PartsOf(int examples) {
    if (examples > 4) return kWhole;
    return {examples > 2 ? 2 : examples - 1, 8};
  }

  // A thread has one row and every eighth column of the tile.
  TF_HSM_DEVICE void MultiplyLogits(const T* w, int w_stride, const Input* x,
                                    int x_stride, int columns, int,
                                    int examples, Parts parts) {
    const int row = ThreadIndex() / 8;
    const int example = ThreadIndex() % 8;
    if (parts.count() > 1) {
      const Input* inputs_from = x + parts.Example(example) * x_stride;
      for (int c = 4 * parts.Part(example); c < columns;
           c += 4 * parts.count()) {
        const Four<T> weights = LoadFour(w + row * w_stride + c);
        const Four<A> inputs = LoadFour(inputs_from + c);
        for (int i = 0; i < 4; ++i) {
          z_[0] += Widen(weights.values[i]) * inputs.values[i];
        }
      }
      return;
    }
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
  template <Source, typename S>
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

// What coefficients in [-2, 2] are multiplied by before they are rounded to T:
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
