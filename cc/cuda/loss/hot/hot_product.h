// The products of hot groups: sums of 128 x 128 numbers that stay in registers.
//
//   s [i, j] += sum over k in [begin_k, end_k) of  a [i, k] b [j, k]
//
// a and b come through shared memory in panels (panel.h) of 128 numbers times
// kDepth of k. Parts past `count_i` and `count_j` are skipped, their sums
// undefined. hot_logits.h multiplies panels with k inside by Multiply,
// hot_sums.h by MultiplySums of HotSimt, or of WideMma (wide_product.h).
//
// A thread has kRows x kColumns sums: At(m, n) is the sum in Row(m) and
// Column(n), or FirstColumn() + ColumnStep(n) in hot_sums.h. The sums of one
// row lie in kRowLanes neighbouring lanes of kRowParts warps.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_PRODUCT_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_PRODUCT_H_

#include <cstdint>

#include "cc/cuda/device/mma.h"
#include "cc/cuda/loss/hot/panel.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/product.h"
#include "cc/cuda/tile/row_piece.h"

namespace tf_hsm::gpu {

// Products in float32 of the stored values as they are.
template <typename T>
class HotSimt {
 public:
  using Weight = T;
  using Input = float;        // of x in shared memory
  using Coefficient = float;  // of exp(z - m) or dz
  static constexpr bool kTensorCores = false;
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 1;             // of a multiprocessor
  static constexpr int kSumRows = kHotTile;     // i of hot_sums.h
  static constexpr int kSumColumns = kHotTile;  // j, at most
  static constexpr int kDepth = 16;
  static constexpr int kStages = 3;  // panels on their way or in use
  static constexpr int kPieces = 2;  // of a panel of coefficients
  static constexpr int kRows = 8;
  static constexpr int kRowStep = 16;  // from Row(m) to Row(m + 1)
  static constexpr int kColumns = 8;
  static constexpr int kTogether = 1;  // neighbours, from Column(n) on
  static constexpr int kRowLanes = 16;
  static constexpr int kRowParts = 1;

  TF_HSM_DEVICE static int Row(int m) {
    return ThreadIndex() / 16 + kRowStep * m;
  }
  TF_HSM_DEVICE static int Column(int n) {
    return ThreadIndex() % 16 + ColumnStep(n);
  }
  TF_HSM_DEVICE static int ColumnStep(int n) { return 16 * n; }
  TF_HSM_DEVICE static int RowPart() { return 0; }
  TF_HSM_DEVICE static int FirstColumn(int) { return Column(0); }
  TF_HSM_DEVICE static int EndColumn(int) { return kSumColumns; }
  TF_HSM_DEVICE float& At(int m, int n) { return sums_[m][n]; }
  TF_HSM_DEVICE static float Exp(float value) { return gpu::Exp(value); }
  // Stores two neighbours, rounded.
  TF_HSM_DEVICE static void StorePair(float low, float high, float* to) {
    *reinterpret_cast<Neighbours<float, 2>*>(to) = {low, high};
  }

  TF_HSM_DEVICE void Clear() {
    TF_HSM_UNROLL
    for (int m = 0; m < kRows; ++m) {
      TF_HSM_UNROLL
      for (int n = 0; n < kColumns; ++n) sums_[m][n] = 0;
    }
  }

  TF_HSM_DEVICE void Multiply(const Input* a, const T* b, int end_k,
                              int count_i, int count_j) {
    MultiplyPanels<Depth::kInside, Depth::kInside>(a, b, 0, end_k, count_i,
                                                   count_j);
  }
  template <Depth a_depth, Source, typename V>
  TF_HSM_DEVICE void MultiplySums(const float* a, const V* b, int begin_k,
                                  int end_k, int count_i, int columns, int) {
    MultiplyPanels<a_depth, Depth::kOutside>(a, b, begin_k, end_k, count_i,
                                             columns);
  }

 private:
  template <Depth a_depth, Depth b_depth, typename V>
  TF_HSM_DEVICE void MultiplyPanels(const float* a, const V* b, int begin_k,
                                    int end_k, int count_i, int count_j) {
    // One step of 4 at a time, or the registers do not do.
    TF_HSM_NO_UNROLL
    for (int k = begin_k; k < end_k; k += 4) {
      Four<float> right[kColumns];
      TF_HSM_UNROLL
      for (int n = 0; n < kColumns; ++n) {
        right[n] = FourAlong<b_depth>(b, Column(n), k);
      }
      TF_HSM_UNROLL
      for (int m = 0; m < kRows; ++m) {
        if (16 * m >= count_i) break;
        const Four<float> left = FourAlong<a_depth>(a, Row(m), k);
        TF_HSM_UNROLL
        for (int n = 0; n < kColumns; ++n) {
          if (16 * n >= count_j) break;
          TF_HSM_UNROLL
          for (int i = 0; i < 4; ++i) {
            sums_[m][n] += left.values[i] * right[n].values[i];
          }
        }
      }
    }
  }

  template <Depth depth, typename U>
  TF_HSM_DEVICE static Four<float> FourAlong(const U* panel, int index, int k) {
    constexpr int kStride = PanelStride<U>(depth, kDepth, kHotTile);
    Four<float> values;
    if constexpr (depth == Depth::kInside) {
      const Four<U> stored = LoadFour(panel + index * kStride + k);
      for (int i = 0; i < 4; ++i) values.values[i] = Widen(stored.values[i]);
    } else {
      for (int i = 0; i < 4; ++i) {
        values.values[i] = Widen(panel[(k + i) * kStride + index]);
      }
    }
    return values;
  }

  float sums_[kRows][kColumns];
};

// Products of values rounded to tf32 (T = float) or to T, sums in float32:
// eight warps of 64 x 32 sums. a is rounded already.
template <typename T>
class HotMma {
 public:
  using Weight = T;
  using Input = T;
  static constexpr bool kTensorCores = true;
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;
  static constexpr int kDepth = 128 / static_cast<int>(sizeof(T));
  static constexpr int kStages = 2;
  static constexpr int kRows = 8;
  static constexpr int kRowStep = 8;  // from Row(m) to Row(m + 1)
  static constexpr int kColumns = 8;
  static constexpr int kTogether = 2;
  static constexpr int kRowLanes = 4;
  static constexpr int kRowParts = 4;

  TF_HSM_DEVICE static int Row(int m) {
    return WarpIndex() % 2 * 64 + m * kRowStep + Lane() / 4;
  }
  TF_HSM_DEVICE static int Column(int n) {
    return RowPart() * 32 + Lane() % 4 * 2 + ColumnStep(n);
  }
  TF_HSM_DEVICE static int ColumnStep(int n) { return n / 2 * 8 + n % 2; }
  TF_HSM_DEVICE static int RowPart() { return WarpIndex() / 2; }
  TF_HSM_DEVICE float& At(int m, int n) {
    return sums_[m / 2][n / 2][m % 2 * 2 + n % 2];
  }
  TF_HSM_DEVICE static float Exp(float value) { return FastExp(value); }
  TF_HSM_DEVICE void Clear() {
    TF_HSM_UNROLL
    for (int m = 0; m < 4; ++m) {
      TF_HSM_UNROLL
      for (int n = 0; n < 4; ++n) {
        TF_HSM_UNROLL
        for (int i = 0; i < 4; ++i) sums_[m][n][i] = 0;
      }
    }
  }

  // A warp without sums goes through no k. The shuffle shows the compiler that
  // a warp does not part there, which saves the registers that a second block
  // needs.
  TF_HSM_DEVICE void Multiply(const T* a, const T* b, int end_k, int count_i,
                              int count_j) {
    const int warp = ShuffleFrom(WarpIndex(), 0);
    const int first_i = warp % 2 * 64;
    const int first_j = warp / 2 * 32;
    const bool none = first_i >= count_i || first_j >= count_j;
    const int end = none ? 0 : end_k;
    constexpr int kStride = PanelStride<T>(Depth::kInside, kDepth, kHotTile);
    Fragments<T, Depth::kInside, true, kStride> lefts(a, first_i, 0);
    Fragments<T, Depth::kInside, false, kStride> rights(b, first_j, 0);
    TF_HSM_NO_UNROLL
    for (int k = 0; k < end; k += kStep) {
      uint32_t left[4][4];
      TF_HSM_UNROLL
      for (int m = 0; m < 4; ++m) lefts.Load(16 * m, left[m]);
      TF_HSM_UNROLL
      for (int n = 0; n < 4; n += 2) {
        uint32_t right[4];
        rights.Load(8 * n, right);
        MmaOperand<T>::Round(right);
        const uint32_t low[2] = {right[0], right[1]};
        const uint32_t high[2] = {right[2], right[3]};
        TF_HSM_UNROLL
        for (int m = 0; m < 4; ++m) {
          Mma<T>(sums_[m][n], left[m], low);
          Mma<T>(sums_[m][n + 1], left[m], high);
        }
      }
      lefts.Next();
      rights.Next();
    }
  }

 private:
  static constexpr int kStep = MmaOperand<T>::kDepth;  // along k

  float sums_[4][4][4];
};

// What the kernels of hot groups get.
template <typename Product>
struct HotArguments {
  using ProductType = Product;
  using T = typename Product::Weight;
  const T* weights;
  const T* biases;
  const typename Product::Input* x;  // sorted
  int64_t width;
  Slabs slabs;
  int weight_bytes;  // of a copy, see CopyBytes
  int input_bytes;
  Buffers<T> buffers;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_PRODUCT_H_
