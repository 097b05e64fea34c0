// Tiles of weights and of inputs in shared memory, and their loads.
//
// A tile has 32 rows of up to kMaxColumns columns, a slab of the width. Rows
// begin 16 bytes further in the banks than the row before, so that neither the
// vector loads of SIMT products nor the fragments of matrix instructions
// collide. Rows and columns past the end hold zeros.

#ifndef TF_HSM_CC_CUDA_TILE_TILE_H_
#define TF_HSM_CC_CUDA_TILE_TILE_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm {
namespace gpu {

constexpr int kTileThreads = 256;
constexpr int kTile = 32;  // rows of a tile
constexpr int kMaxColumns = 512;
constexpr int kColumnStep = 16;  // columns are padded to

static_assert(kTile == kTileRows && kTile == kTileExamples, "one kind of tile");

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

template <int bytes, typename T>
TF_HSM_DEVICE void CopyTile(const T* from, int64_t width, int rows, int columns,
                            int padded, int stride, T* to) {
  constexpr int elements = bytes / static_cast<int>(sizeof(T));
  const int across = padded / elements;
  for (int i = ThreadIndex(); i < kTile * across; i += kTileThreads) {
    const int row = i / across;
    const int column = i % across * elements;
    const int left = row < rows ? Smaller(columns - column, elements) : 0;
    const int valid = Larger(left, 0);
    CopyAsync<bytes>(to + row * stride + column,
                     valid > 0 ? from + row * width + column : from,
                     valid * static_cast<int>(sizeof(T)));
  }
}

// Starts to load a tile: `rows` rows of `columns` of a matrix of `width`, the
// first element at `from`. It is there after WaitForCopies and a barrier.
template <typename T>
TF_HSM_DEVICE void LoadTile(const T* from, int64_t width, int rows, int columns,
                            int copy_bytes, int stride, T* to) {
  const int padded = static_cast<int>(RoundUp(columns, kColumnStep));
  if (copy_bytes == 16) {
    return CopyTile<16>(from, width, rows, columns, padded, stride, to);
  }
  if (copy_bytes == 8) {
    return CopyTile<8>(from, width, rows, columns, padded, stride, to);
  }
  if constexpr (sizeof(T) <= 4) {
    if (copy_bytes == 4) {
      return CopyTile<4>(from, width, rows, columns, padded, stride, to);
    }
  }
  for (int i = ThreadIndex(); i < kTile * padded; i += kTileThreads) {
    const int row = i / padded;
    const int column = i % padded;
    to[row * stride + column] =
        row < rows && column < columns ? from[row * width + column] : T{};
  }
}

// Starts to load a tile from accumulators, rounded to the type of the tile.
template <typename T>
TF_HSM_DEVICE void LoadInputs(const Accumulator<T>* from, int64_t width,
                              int rows, int columns, int copy_bytes, int stride,
                              T* to) {
  if constexpr (sizeof(T) == sizeof(Accumulator<T>)) {
    LoadTile(from, width, rows, columns, copy_bytes, stride, to);
  } else {
    const int padded = static_cast<int>(RoundUp(columns, kColumnStep));
    for (int i = ThreadIndex(); i < kTile * padded; i += kTileThreads) {
      const int row = i / padded;
      const int column = i % padded;
      to[row * stride + column] = row < rows && column < columns
                                      ? Narrow<T>(from[row * width + column])
                                      : T{};
    }
  }
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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_TILE_H_
