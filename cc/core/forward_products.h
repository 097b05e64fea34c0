// The two products of a group's forward, which forward_group.h calls per block
// of weights:
//
//   Logits: z[m][k] = x_m . w_k + b_k
//   Expect: sums[m] (+)= sum_k e[m][k] w_k
//
// on vectors (tile.h), for any weights; and on tiles (amx_tile.h), for
// bfloat16 ones.

#ifndef TF_HSM_CC_CORE_FORWARD_PRODUCTS_H_
#define TF_HSM_CC_CORE_FORWARD_PRODUCTS_H_

#include <cstdint>

#include "cc/core/softmax.h"
#include "cc/core/tile.h"

#if defined(__AMX_BF16__)
#include "cc/core/amx_tile.h"
#endif

namespace tf_hsm {
namespace TF_HSM_ISA {

// Both operands as they lie.
template <typename T>
class VectorProducts {
 public:
  using A = Accumulator<T>;
  static constexpr int64_t kMaxBlockRows = 64;
  static constexpr bool kForInfiniteWeights = true;

  VectorProducts(Matrix<const A> x, int64_t examples, int64_t width)
      : x_(x), examples_(examples), width_(width) {}

  // About 64 KB, so that a block read from memory by the logits is in the
  // second cache for dx. Smaller blocks were slower (the softmax of a block has
  // a fixed cost).
  int64_t BlockRows() const {
    if (width_ == 0) return kMaxBlockRows;
    const int64_t rows =
        (64 << 10) / (width_ * static_cast<int64_t>(sizeof(T)));
    const int64_t even = rows / 8 * 8;
    return even < 8 ? 8 : even > kMaxBlockRows ? kMaxBlockRows : even;
  }

  void Logits(Matrix<const T> w, int64_t rows, const T* biases, Matrix<A> z) {
    if (width_ <= kTransposedWidth) {
      TransposedLogits<T>(w, rows, biases, x_, examples_, width_, z);
    } else {
      TF_HSM_ISA::Logits<T>(w, rows, biases, x_, examples_, width_, z);
    }
  }

  void Expect(Matrix<A> e, Matrix<const T> w, int64_t rows, bool add,
              Matrix<A> sums) {
    const Strided<A> factors = {e.data, e.stride, 1};
    if (add) {
      Outer<T, true>(factors, examples_, rows, w, width_, sums);
    } else {
      Outer<T, false>(factors, examples_, rows, w, width_, sums);
    }
  }

 private:
  const Matrix<const A> x_;
  const int64_t examples_, width_;
};

#if defined(__AMX_BF16__)

// x and e in parts, three times as many multiplications at up to 16 times the
// rate. x is packed once; a block of weights, for Expect, while it is in the
// second cache.
class TileProducts {
 public:
  static constexpr int64_t kMaxBlockRows = 128;
  static constexpr bool kForInfiniteWeights = false;

  // With fewer rows, packing x costs more than the tiles save; with fewer
  // examples or numbers most of a tile is padding.
  static bool Suits(int64_t fanout, int64_t examples, int64_t width) {
    return fanout >= 32 && examples >= 8 && width >= kTileDepth;
  }

  TileProducts(Matrix<const float> x, int64_t examples, int64_t width)
      : examples_(examples),
        width_(width),
        parts_(CountParts(x, examples, Padded(width))) {
    const int64_t tall = CountTiles(examples, kTileLines);
    const int64_t x_tiles = tall * CountTiles(width, kTileDepth) * parts_;
    const int64_t depths = CountTiles(BlockRows(), kTileDepth);
    const int64_t w_tiles = CountTiles(width, 16) * depths;
    x_ = Scratch<uint16_t>((x_tiles + w_tiles + tall * depths * kParts) *
                           kTileNumbers);
    w_ = x_ + x_tiles * kTileNumbers;
    e_ = w_ + w_tiles * kTileNumbers;
    PackParts<true>(x, examples, width, parts_, x_);
  }

  int64_t BlockRows() const {
    const int64_t rows = (128 << 10) / (width_ * 2) / kTileDepth * kTileDepth;
    return rows < kTileDepth      ? kTileDepth
           : rows > kMaxBlockRows ? kMaxBlockRows
                                  : rows;
  }

  void Logits(Matrix<const bfloat16> w, int64_t rows, const bfloat16* biases,
              Matrix<float> z) {
    LogitsOnTiles(w, rows, x_, parts_, examples_, width_, z);
    AddBiases(biases, rows, examples_, z);
  }

  void Expect(Matrix<float> e, Matrix<const bfloat16> w, int64_t rows, bool add,
              Matrix<float> sums) {
    PackParts<false>({e.data, e.stride}, examples_, rows, kParts, e_);
    PackRows(w, rows, width_, w_);
    ProductOnTiles(e_, w_, 1, examples_, rows, width_, add, sums);
  }

 private:
  const TileSession session_;
  const int64_t examples_, width_;
  const int parts_;  // of x
  uint16_t *x_, *w_, *e_;
};

#endif

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_FORWARD_PRODUCTS_H_
