// Outer (tile-inl.h) whose result goes past the caches straight from the
// registers:
//
//   to[k width + d] = sum_m a(k, m) x_m[d]
//
// A block of sums that is copied to memory afterwards has processor and memory
// wait for each other; sums stored as they are ready leave both at work. Memory
// takes whole cache lines only, while a row may begin anywhere in one. So x is
// copied once with zeros around it and read at the distance that puts the sums
// on lines; rows at one distance share what is read. A line that holds the end
// of one row and the beginning of the next is put together at the end.

#ifndef TF_HSM_CC_CORE_SIMD_STREAM_OUTER_INL_H_
#define TF_HSM_CC_CORE_SIMD_STREAM_OUTER_INL_H_

#include <cstdint>

#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

constexpr int64_t kLine = 16;  // numbers
constexpr int kLineVectors = kLine / kLanes<float>;
constexpr int kStreamVectors = 4;  // of a tile
constexpr int kStreamHeight = kManyRegisters ? 6 : 2;
constexpr int64_t kStreamWidth = kStreamVectors * kLanes<float>;

constexpr int64_t kMaxStreamRows = 48;

// The narrowest rows: a line holds parts of two rows at most.
constexpr int64_t kMinStreamWidth = 2 * kLine;

// Numbers of a copy of one x: a line of zeros before it, and enough behind it
// for a tile that begins on its last line.
constexpr int64_t SpreadWidth(int64_t width) {
  return (width + 2 * kLine + kStreamWidth) / kLine * kLine;
}

inline void Spread(Matrix<const float> x, int64_t examples, int64_t width,
                   float* to) {
  const int64_t stride = SpreadWidth(width);
  __builtin_memset(to, 0, examples * stride * sizeof(float));
  for (int64_t m = 0; m < examples; ++m) {
    __builtin_memcpy(to + m * stride + kLine, x.row(m), width * sizeof(float));
  }
}

// Some rows that begin at the same distance `before` from a line.
class LineRows {
 public:
  // The parts of row k that share a line with another row, with zeros around
  // them.
  struct Ends {
    alignas(kLine * sizeof(float)) float head[kLine], tail[kLine];
  };

  // Row k lies at to + k width; its distance is that of `to + first width`.
  LineRows(float* to, int64_t width, int64_t first, Ends* ends)
      : to_(to),
        width_(width),
        before_(reinterpret_cast<uintptr_t>(to + first * width) /
                sizeof(float) % kLine),
        ends_(ends) {}

  int64_t before() const { return before_; }
  // Up to the end of a row, from the line that it begins in.
  int64_t numbers() const { return before_ + width_; }

  // Writes the tile of sums at number `at`, a multiple of kLine, of row k.
  TF_HSM_INLINE void Write(int64_t k, int64_t at,
                           const Vector<float>* sums) const {
    float* row = to_ + k * width_ - before_;
    const bool all_whole =
        (at > 0 || before_ == 0) && at + kStreamWidth <= before_ + width_;
    if (all_whole) {
#pragma GCC unroll 8
      for (int v = 0; v < kStreamVectors; ++v) {
        Stream(row + at + v * kLanes<float>, sums[v]);
      }
      return;
    }
    for (int v = 0; v < kStreamVectors; v += kLineVectors) {
      const int64_t line = at + v * kLanes<float>;
      if (line >= before_ + width_) return;
      float* end = line == 0 && before_ > 0          ? ends_[k].head
                   : line + kLine > before_ + width_ ? ends_[k].tail
                                                     : nullptr;
      for (int i = 0; i < kLineVectors; ++i) {
        const int64_t lane = i * kLanes<float>;
        if (end != nullptr) {
          Store(end + lane, sums[v + i]);
        } else {
          Stream(row + line + lane, sums[v + i]);
        }
      }
    }
  }

 private:
  float* const to_;
  const int64_t width_, before_;
  Ends* const ends_;
};

// `height` rows k, k + step, ..., in tiles one below the other.
template <int height>
TF_HSM_INLINE void StreamTile(Strided<float> a, int64_t depth, const float* x,
                              int64_t stride, const LineRows& rows, int64_t k,
                              int64_t step, int64_t at) {
  constexpr int lanes = kLanes<float>;
  Vector<float> sums[height][kStreamVectors] = {};
  for (int64_t m = 0; m < depth; ++m) {
    Vector<float> xs[kStreamVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kStreamVectors; ++v) {
      xs[v] = Load(x + m * stride + v * lanes);
    }
    const float* column = a.data + k * a.row_stride + m * a.column_stride;
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i) {
      const Vector<float> factor =
          Splat<float>(column[i * step * a.row_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kStreamVectors; ++v) sums[i][v] += factor * xs[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < height; ++i) rows.Write(k + i * step, at, sums[i]);
}

// The sum of two ends is, of finite numbers, one of them and zeros.
inline void StreamEnds(const LineRows::Ends* ends, int64_t rows, int64_t width,
                       float* to) {
  constexpr int lanes = kLanes<float>;
  for (int64_t k = 0; k <= rows; ++k) {
    float* row = to + k * width;
    const int64_t before =
        reinterpret_cast<uintptr_t>(row) / sizeof(float) % kLine;
    if (before == 0) continue;
    if (k == 0) {
      __builtin_memcpy(row, ends[0].head + before,
                       (kLine - before) * sizeof(float));
    } else if (k == rows) {
      __builtin_memcpy(row - before, ends[k - 1].tail, before * sizeof(float));
    } else {
      for (int64_t i = 0; i < kLine; i += lanes) {
        Stream(row - before + i,
               Load(ends[k - 1].tail + i) + Load(ends[k].head + i));
      }
    }
  }
}

// For k < rows <= kMaxStreamRows; x from Spread; width >= kMinStreamWidth.
inline void StreamOuter(Strided<float> a, int64_t rows, int64_t depth,
                        const float* x, int64_t width, float* to) {
  LineRows::Ends ends[kMaxStreamRows];
  const int64_t stride = SpreadWidth(width);
  // Rows at one distance from a line.
  const int64_t even = width & -width;  // the largest power of two in it
  const int64_t step = even < kLine ? kLine / even : 1;
  for (int64_t first = 0; first < step && first < rows; ++first) {
    const LineRows lines(to, width, first, ends);
    const float* shifted = x + kLine - lines.before();
    for (int64_t at = 0; at < lines.numbers(); at += kStreamWidth) {
      int64_t k = first;
      auto tile = [&](auto count) {
        constexpr int height = decltype(count)::value;
        StreamTile<height>(a, depth, shifted + at, stride, lines, k, step, at);
        k += height * step;
      };
      auto left = [&] { return (rows - k + step - 1) / step; };
      while (left() >= kStreamHeight) tile(IntConstant<kStreamHeight>());
      if constexpr (kStreamHeight > 4) {
        if (left() >= 4) tile(IntConstant<4>());
      }
      if (left() >= 2) tile(IntConstant<2>());
      if (left() >= 1) tile(IntConstant<1>());
    }
  }
  StreamEnds(ends, rows, width, to);
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_STREAM_OUTER_INL_H_
