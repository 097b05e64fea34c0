// The two products of a group's forward, which forward_group-inl.h calls per
// block of weights:
//
//   Logits: z[m][k] = x_m . w_k + b_k
//   Expect: sums[m] (+)= sum_k e[m][k] w_k
//
// on vectors (tile-inl.h), for any weights; and on tiles (amx_tile-inl.h), for
// float32 and bfloat16 ones.

#ifndef TF_HSM_CC_CORE_GROUPS_FORWARD_PRODUCTS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_FORWARD_PRODUCTS_INL_H_

#include <cstdint>

#include "cc/core/groups/problem.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"

#if defined(__AMX_BF16__)
#include "cc/core/simd/amx_tile-inl.h"
#endif

namespace tf_hsm {
namespace TF_HSM_ISA {

#if defined(__AMX_BF16__)
constexpr int64_t kForwardExamples = kMaxTileExamples;
#else
constexpr int64_t kForwardExamples = kMaxItemExamples;
#endif

// Both operands as they lie. But Expect reads columns of a block: where rows
// lie a large power of two apart, their numbers share few sets of the first
// cache, and a copy with another stride is faster for all but a few examples.
template <typename T>
class VectorProducts {
 public:
  using A = Accumulator<T>;
  static constexpr int64_t kMaxBlockRows = 64;
  static constexpr bool kForInfiniteWeights = true;

  VectorProducts(Matrix<const A> x, int64_t examples, int64_t width)
      : x_(x), examples_(examples), width_(width) {
    Reserve(examples, width);
    if (Copies(examples, width)) copy_ = &Scratch<Copied>(0)->weight;
  }

  // Reserves its own scratch.
  static void Reserve(int64_t examples, int64_t width) {
    if (!Copies(examples, width)) return;
    Scratch<Copied>(kMaxBlockRows * CopyStride(width));
  }

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

  static int64_t Stride(int64_t width) { return Padded(width); }

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
    if (copy_ != nullptr) {
      for (int64_t k = 0; k < rows; ++k) {
        __builtin_memcpy(copy_ + k * CopyStride(width_), w.row(k),
                         width_ * sizeof(T));
      }
      w = {copy_, CopyStride(width_)};
    }
    if (add) {
      Outer<T, true>(factors, examples_, rows, w, width_, sums);
    } else {
      Outer<T, false>(factors, examples_, rows, w, width_, sums);
    }
  }

 private:
  // Many registers make a tile of Outer so high that its sums hide the misses.
  static bool Copies(int64_t examples, int64_t width) {
    return !kManyRegisters && width * sizeof(T) % 1024 == 0 && examples >= 16;
  }
  static int64_t CopyStride(int64_t width) { return width + kPadding; }

  struct Copied {  // Scratch has one buffer for each type.
    T weight;
  };

  const Matrix<const A> x_;
  const int64_t examples_, width_;
  T* copy_ = nullptr;
};

#if defined(__AMX_BF16__)

// x and e in parts, and float32 weights: three times as many multiplications,
// or six, at up to 16 times the rate. x is packed once; float32 weights, for
// the logits, block by block; a block of any weights, for Expect, while it is
// in the second cache.
template <typename T>
class TileProducts {
 public:
  static constexpr int64_t kMaxBlockRows = 128;
  static constexpr bool kForInfiniteWeights = false;

  // With fewer rows, packing x costs more than the tiles save; with fewer
  // examples or numbers most of a tile is padding.
  static bool Suits(int64_t fanout, int64_t examples, int64_t width) {
    return fanout >= 32 && examples >= kMinExamples && width >= kTileDepth;
  }

  TileProducts(Matrix<const float> x, int64_t examples, int64_t width)
      : examples_(examples),
        width_(width),
        parts_(CountParts(x, examples, Padded(width))) {
    const Tiles tiles(examples, width);
    x_ = Scratch<uint16_t>(tiles.Total() * kTileNumbers);
    left_ = x_ + tiles.x * kTileNumbers;
    right_ = left_ + tiles.left * kTileNumbers;
    e_ = right_ + tiles.right * kTileNumbers;
    PackColumns<!kPacked>(x, examples, width, parts_, x_);
  }

  // Numbers of its own scratch.
  static int64_t ScratchSize(int64_t examples, int64_t width) {
    return Tiles(examples, width).Total() * kTileNumbers;
  }

  int64_t BlockRows() const { return BlockRows(width_); }

  static int64_t BlockRows(int64_t width) {
    const int64_t rows = (128 << 10) /
                         (width * static_cast<int64_t>(sizeof(T))) /
                         kTileDepth * kTileDepth;
    return rows < kTileDepth      ? kTileDepth
           : rows > kMaxBlockRows ? kMaxBlockRows
                                  : rows;
  }

  static int64_t Stride(int64_t width) { return SpreadStride(width); }

  void Logits(Matrix<const T> w, int64_t rows, const T* biases,
              Matrix<float> z) {
    if constexpr (kPacked) {
      PackLeft<true>(w, rows, width_, left_);
      BeforeTileLoads(left_);
      LogitsOnTiles(left_, rows, x_, parts_, examples_, width_, z);
    } else {
      LogitsOnTiles(w, rows, x_, parts_, examples_, width_, z);
    }
    AddBiases(biases, rows, examples_, z);
  }

  void Expect(Matrix<float> e, Matrix<const T> w, int64_t rows, bool add,
              Matrix<float> sums) {
    PackLeft<false>({e.data, e.stride}, examples_, rows, e_);
    if constexpr (kPacked) {
      PackRows<false>(w, rows, width_, kWeightParts, right_);
    } else {
      PackRows(w, rows, width_, right_);
    }
    ProductOnTiles(e_, right_, kWeightParts, examples_, rows, width_, add,
                   sums);
  }

 private:
  static constexpr bool kPacked = sizeof(T) == sizeof(float);
  static constexpr int kWeightParts = kPacked ? kParts : 1;
  static constexpr int64_t kMinExamples = kPacked ? 32 : 8;

  // How many tiles each operand has, x of as many parts as it may need.
  struct Tiles {
    Tiles(int64_t examples, int64_t width) {
      const int64_t tall = CountTiles(examples, kTileLines);
      const int64_t wide = CountTiles(width, kTileDepth);
      const int64_t depths = CountTiles(BlockRows(width), kTileDepth);
      x = tall * wide * kParts;
      left = kPacked ? CountTiles(BlockRows(width), kTileLines) * wide * kParts
                     : 0;
      right = CountTiles(width, 16) * depths * kWeightParts;
      e = tall * depths * kParts;
    }
    int64_t Total() const { return x + left + right + e; }

    int64_t x, left, right, e;
  };

  const TileSession session_;
  const int64_t examples_, width_;
  const int parts_;  // of x
  uint16_t *x_, *left_, *right_, *e_;
};

#endif

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_FORWARD_PRODUCTS_INL_H_
