// The product of the backward, which backward_rows-inl.h calls per block of
// rows and chunk of examples:
//
//   Add: dW[k] (+)= sum_m dz[m][k] x_m
//
// on vectors (tile-inl.h), and on tiles (amx_tile-inl.h) for sums in float; or,
// with few examples and memory that is too much for the cache, straight to
// memory (stream_outer-inl.h).

#ifndef TF_HSM_CC_CORE_GROUPS_BACKWARD_PRODUCTS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_BACKWARD_PRODUCTS_INL_H_

#include <cstdint>

#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/stream_outer-inl.h"
#include "cc/core/simd/tile-inl.h"

#if defined(__AMX_BF16__)
#include "cc/core/simd/amx_tile-inl.h"
#endif

namespace tf_hsm {
namespace TF_HSM_ISA {

constexpr int64_t kBackwardExamples = 64;  // most examples of one Add

// Rows of a large group in a work item: a multiple of this. For each block of
// rows an item reads all of x, and a piece of each row of kept probabilities.
constexpr int64_t kBackwardRowStep = 96;

// With at most this many examples, a group's rows cost more than its products.
constexpr int64_t kFewExamples = 24;

// Both operands as they lie.
template <typename T>
class VectorOuter {
 public:
  using A = Accumulator<T>;
  static constexpr int64_t kMaxBlockRows = kBackwardRowStep;
  static constexpr bool kStreams = false;

  // With few examples dW is what counts, and stays in the first cache;
  // otherwise in the second.
  static int64_t BlockRows(int64_t population, int64_t width) {
    return population <= kFewExamples ? 18 : width <= 640 ? kMaxBlockRows : 48;
  }

  explicit VectorOuter(int64_t width) : width_(width) {}

  static int64_t Stride(int64_t width) { return width; }

  void Add(Matrix<A> dz, int64_t rows, Matrix<const A> x, int64_t examples,
           bool add, Matrix<A> dw) {
    const Strided<A> factors = {dz.data, 1, dz.stride};
    if (add) {
      Outer<A, true>(factors, rows, examples, x, width_, dw);
    } else {
      Outer<A, false>(factors, rows, examples, x, width_, dw);
    }
  }

 private:
  const int64_t width_;
};

// Write instead of Add: dW goes to memory from the registers. x is spread once,
// over what would be dW's block.
class StreamingOuter {
 public:
  static constexpr int64_t kMaxBlockRows = kMaxStreamRows;
  static constexpr bool kStreams = true;

  // With fewer rows, spreading x costs more than is won; so does reading it at
  // 8 or 16 distances from a line, few rows at each, with more examples.
  static bool Suits(int64_t rows, int64_t population, int64_t width) {
    return rows >= 16 && width >= kMinStreamWidth &&
           population <= (width % 4 == 0 ? kMaxExamples : 8);
  }

  static int64_t BlockRows(int64_t, int64_t) { return kMaxBlockRows; }

  explicit StreamingOuter(int64_t width) : width_(width) {}

  static int64_t Stride(int64_t width) { return SpreadWidth(width); }

  void Write(Matrix<float> dz, int64_t rows, Matrix<const float> x,
             int64_t examples, Matrix<float> spread, float* dw) {
    if (!is_spread_) Spread(x, examples, width_, spread.data);
    is_spread_ = true;
    StreamOuter({dz.data, 1, dz.stride}, rows, examples, spread.data, width_,
                dw);
  }

 private:
  static constexpr int64_t kMaxExamples = 32;
  static_assert(kMaxExamples <= kBackwardExamples, "one chunk");
  static_assert(kMaxExamples <= kMaxBlockRows, "room for the spread x");

  const int64_t width_;
  bool is_spread_ = false;
};

#if defined(__AMX_BF16__)

// dz and x in parts: six multiplications, or three of bfloat16 inputs. x is
// packed for every block of rows, so blocks are taller; it is packed once where
// there is one chunk.
class TileOuter {
 public:
  static constexpr int64_t kMaxBlockRows = kBackwardRowStep;
  static constexpr bool kStreams = false;

  // With fewer rows or examples, packing costs more than the tiles save.
  static bool Suits(int64_t rows, int64_t population, int64_t width) {
    return rows >= 48 && population >= 32 && width >= kTileDepth;
  }

  static int64_t BlockRows(int64_t, int64_t) { return kMaxBlockRows; }

  explicit TileOuter(int64_t width) : width_(width) {
    x_ = Scratch<uint16_t>(ScratchSize(width));
    dz_ = x_ + XTiles(width) * kParts * kTileNumbers;
  }

  // Numbers of its own scratch.
  static int64_t ScratchSize(int64_t width) {
    constexpr int64_t dz_tiles = kDepths * kMaxBlockRows / kTileLines;
    return (XTiles(width) + dz_tiles) * kParts * kTileNumbers;
  }

  static int64_t Stride(int64_t width) { return SpreadStride(width); }

  void Add(Matrix<float> dz, int64_t rows, Matrix<const float> x,
           int64_t examples, bool add, Matrix<float> dw) {
    if (x.data != packed_) {
      packed_ = x.data;
      parts_ = CountParts(x, examples, Padded(width_));
      PackRows<true>(x, examples, width_, parts_, x_);
    }
    PackFactors({dz.data, dz.stride}, examples, rows, dz_);
    ProductOnTiles(dz_, x_, parts_, rows, examples, width_, add, dw);
  }

 private:
  static constexpr int64_t kDepths = kBackwardExamples / kTileDepth;

  static int64_t XTiles(int64_t width) {
    return kDepths * CountTiles(width, 16);
  }

  const TileSession session_;
  const int64_t width_;
  const float* packed_ = nullptr;
  int parts_ = 0;
  uint16_t *x_, *dz_;
};

#endif

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_BACKWARD_PRODUCTS_INL_H_
