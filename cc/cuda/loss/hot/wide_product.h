// The product of hot_sums.h on tensor cores: sums of 64 x 320 numbers, so wide
// that the coefficients of most widths are made once.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_WIDE_PRODUCT_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_WIDE_PRODUCT_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/loss/hot/hot_product.h"
#include "cc/cuda/loss/hot/panel.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm::gpu {

// As HotMma, b with k outside. Each of eight warps has all 64 i and an eighth
// of the columns of a slab, up to 40.
template <typename T>
class WideMma {
 public:
  using Weight = T;
  using Input = T;
  using Coefficient = T;
  static constexpr bool kTensorCores = true;
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;
  static constexpr int kSumRows = 64;
  static constexpr int kSumColumns = 320;
  static constexpr int kDepth = 64 / static_cast<int>(sizeof(T));
  static constexpr int kStages = 3;
  static constexpr int kPieces = 1;
  static constexpr int kRows = 8;
  static constexpr int kRowStep = 8;
  static constexpr int kColumns = 10;

  TF_HSM_DEVICE static int Row(int m) { return m * kRowStep + Lane() / 4; }
  // The thread's first column, and the end of its warp's, in slabs of so many.
  TF_HSM_DEVICE static int FirstColumn(int slab_columns) {
    return WarpIndex() * (slab_columns / kWarps) + Lane() % 4 * 2;
  }
  TF_HSM_DEVICE static int EndColumn(int slab_columns) {
    return (WarpIndex() + 1) * (slab_columns / kWarps);
  }
  TF_HSM_DEVICE static int ColumnStep(int n) { return n / 2 * 8 + n % 2; }
  TF_HSM_DEVICE float At(int m, int n) const {
    return sums_[m / 2][n / 2][m % 2 * 2 + n % 2];
  }
  TF_HSM_DEVICE static float Exp(float value) { return FastExp(value); }
  TF_HSM_DEVICE static void StorePair(float low, float high, T* to) {
    if constexpr (sizeof(T) == 2) {
      *reinterpret_cast<uint32_t*>(to) = NarrowPair<T>(low, high);
    } else {
      *reinterpret_cast<Neighbours<float, 2>*>(to) = {BitsFloat(ToTf32(low)),
                                                      BitsFloat(ToTf32(high))};
    }
  }

  TF_HSM_DEVICE void Clear() {
    TF_HSM_UNROLL
    for (int m = 0; m < 4; ++m) {
      TF_HSM_UNROLL
      for (int n = 0; n < kMostTiles; ++n) {
        TF_HSM_UNROLL
        for (int i = 0; i < 4; ++i) sums_[m][n][i] = 0;
      }
    }
  }

  // All of kSumRows, of the first `columns` of a slab.
  template <Depth a_depth, Source b_source>
  TF_HSM_DEVICE void MultiplySums(const T* a, const T* b, int begin_k,
                                  int end_k, int, int columns,
                                  int slab_columns) {
    const int first = ShuffleFrom(WarpIndex(), 0) * (slab_columns / kWarps);
    const int end = first < columns ? end_k : begin_k;
    auto multiply = [&](auto tiles) {
      MultiplyTiles<a_depth, b_source, decltype(tiles)::value>(a, b, first,
                                                               begin_k, end);
    };
    switch (slab_columns / (8 * kWarps)) {
      case 5:
        return multiply(std::integral_constant<int, 5>());
      case 4:
        return multiply(std::integral_constant<int, 4>());
      case 3:
        return multiply(std::integral_constant<int, 3>());
      case 2:
        return multiply(std::integral_constant<int, 2>());
      default:
        multiply(std::integral_constant<int, 1>());
    }
  }

 private:
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kMostTiles = kSumColumns / kWarps / 8;
  static constexpr int kStep = MmaOperand<T>::kDepth;  // along k

  // `tiles` of 8 columns. An odd number of them also loads the 8 columns
  // behind, which are in the panel or between its rows.
  template <Depth a_depth, Source b_source, int tiles>
  TF_HSM_DEVICE void MultiplyTiles(const T* a, const T* b, int first_column,
                                   int begin_k, int end_k) {
    Fragments<T, a_depth, true, PanelStride<T>(a_depth, kDepth, kSumRows)>
        lefts(a, 0, begin_k);
    Fragments<T, Depth::kOutside, false,
              PanelStride<T>(Depth::kOutside, kDepth, kSumColumns)>
        rights(b, first_column, begin_k);
    TF_HSM_NO_UNROLL
    for (int k = begin_k; k < end_k; k += kStep) {
      uint32_t right[tiles][2];
      TF_HSM_UNROLL
      for (int n = 0; n < tiles; n += 2) {
        uint32_t words[4];
        rights.Load(8 * n, words);
        if constexpr (b_source == Source::kWeights) {
          MmaOperand<T>::Round(words);
        }
        TF_HSM_UNROLL
        for (int i = 0; i < 4 && n + i / 2 < tiles; ++i) {
          right[n + i / 2][i % 2] = words[i];
        }
      }
      TF_HSM_UNROLL
      for (int m = 0; m < 4; ++m) {
        uint32_t left[4];
        lefts.Load(16 * m, left);
        TF_HSM_UNROLL
        for (int n = 0; n < tiles; ++n) Mma<T>(sums_[m][n], left, right[n]);
      }
      lefts.Next();
      rights.Next();
    }
  }

  float sums_[4][kMostTiles][4];
};

template <>
struct CoefficientScale<WideMma<half>> : CoefficientScale<MmaProduct<half>> {};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_WIDE_PRODUCT_H_
