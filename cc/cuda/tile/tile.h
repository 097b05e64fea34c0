// Tiles of weights and of inputs in shared memory, and their loads; and how the
// tile of logits of their product lies there.
//
// A tile has 32 rows of up to kMaxColumns columns, a slab of the width. Rows
// begin 16 bytes further in the banks than the row before, so that neither the
// vector loads of SIMT products nor the fragments of matrix instructions
// collide (product.h; the emulation looks). Rows and columns past the end hold
// zeros.

#ifndef TF_HSM_CC_CUDA_TILE_TILE_H_
#define TF_HSM_CC_CUDA_TILE_TILE_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

constexpr int kTileThreads = 256;
constexpr int kTile = 32;  // rows of a tile
constexpr int kMaxColumns = 512;
constexpr int kColumnStep = 16;  // of a slab

static_assert(kTile == kTileRows && kTile == kTileExamples, "one kind of tile");

// The columns of a tile of T, with those of zeros behind `columns`: 64 bytes or
// more at a time.
template <typename T>
TF_HSM_HOST_DEVICE int PaddedColumns(int columns) {
  return static_cast<int>(RoundUp(columns, sizeof(T) == 2 ? 32 : 16));
}

// Elements between the rows of a tile of T with `columns` columns.
template <typename T>
TF_HSM_HOST_DEVICE int TileStride(int columns) {
  return static_cast<int>((RoundUp(columns * sizeof(T), 128) + 16) / sizeof(T));
}

template <typename T>
TF_HSM_HOST_DEVICE int64_t TileBytes(int columns) {
  return int64_t{kTile} * TileStride<T>(columns) * sizeof(T);
}

// The bytes of the widest copy that source rows of T allow: 16, 8, 4, or 0
// where elements must be loaded one by one.
template <typename T>
int CopyBytes(const T* data, int64_t width) {
  const uint64_t bits = reinterpret_cast<uintptr_t>(data) |
                        static_cast<uint64_t>(width) * sizeof(T);
  for (int bytes = 16; bytes >= 4; bytes /= 2) {
    if (bits % bytes == 0) return bytes;
  }
  return 0;
}

// A warp copies every eighth row. What CopyBytes allows divides `columns`, so
// that a copy is there as a whole or not at all. bytes == 0: element by
// element.
template <int bytes, typename T>
TF_HSM_DEVICE void CopyTile(const T* from, int64_t width, int rows, int columns,
                            int tile_rows, int stride, T* to) {
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr int kElements = bytes == 0 ? 1 : bytes / kSize;
  constexpr int kStep = kTileThreads / kWarp;
  const int padded = PaddedColumns<T>(columns);
  const int own = rows - WarpIndex();  // rows from the warp's first one on
  const T* source = from + WarpIndex() * width + Lane() * kElements;
  T* target = to + WarpIndex() * stride + Lane() * kElements;
  TF_HSM_NO_UNROLL
  for (int column = Lane() * kElements; column < padded;
       column += kWarp * kElements) {
    const int count = column < columns ? own : 0;
    const SharedAddress address = AddressOf(target);
    TF_HSM_UNROLL
    for (int row = 0; row < kTile; row += kStep) {
      if (row >= tile_rows) break;
      if constexpr (bytes == 0) {
        target[row * stride] = row < count ? source[row * width] : T{};
      } else {
        CopyAsync<bytes>(address + row * stride * kSize, source + row * width,
                         row < count ? bytes : 0);
      }
    }
    source += kWarp * kElements;
    target += kWarp * kElements;
  }
}

// Starts to load the first `tile_rows`, eight or more, rows of a tile: `rows`
// rows of `columns` of a matrix of `width`, the first element at `from`. They
// are there after WaitForCopies and a barrier.
template <typename T>
TF_HSM_DEVICE void LoadTile(const T* from, int64_t width, int rows, int columns,
                            int copy_bytes, int tile_rows, int stride, T* to) {
  if (copy_bytes == 16) {
    return CopyTile<16>(from, width, rows, columns, tile_rows, stride, to);
  }
  if (copy_bytes == 8) {
    return CopyTile<8>(from, width, rows, columns, tile_rows, stride, to);
  }
  if constexpr (sizeof(T) <= 4) {
    if (copy_bytes == 4) {
      return CopyTile<4>(from, width, rows, columns, tile_rows, stride, to);
    }
  }
  CopyTile<0>(from, width, rows, columns, tile_rows, stride, to);
}

// Four neighbours, aligned to all of them or to 16 bytes.
template <typename T>
struct alignas(sizeof(T) < 4 ? 8 : 16) Four {
  T values[4];
};

template <typename T>
TF_HSM_DEVICE Four<T> LoadFour(const T* from) {
  return *reinterpret_cast<const Four<T>*>(from);
}

// Numbers between the rows of a tile of logits or coefficients in shared
// memory.
constexpr int kCoefficientStride = kTile + 4;

// The parts of the logits of example e are in the columns e + i * step() of a
// tile, below `end`.
struct Parts {
  int log_step;
  int end;

  TF_HSM_HOST_DEVICE int step() const { return 1 << log_step; }
  TF_HSM_HOST_DEVICE int count() const { return end >> log_step; }
  TF_HSM_HOST_DEVICE int Part(int column) const { return column >> log_step; }
  TF_HSM_HOST_DEVICE int Example(int column) const {
    return column & (step() - 1);
  }
};
constexpr Parts kWhole = {5, kTile};
static_assert(kTile == 1 << 5, "kWhole has one part");

// Weights come as they are stored, inputs as Product::Input.
enum class Source { kWeights, kInputs };

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_TILE_H_
