// Neighbouring rows, and how the threads that give them out share their
// numbers.
//
// Rows of a group are neighbours in memory, and so are their numbers in the
// slots of a rule: threads take them in turn, some neighbours at a time, with
// no regard to where a row ends. Only gradients lie `stride` apart.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_SPAN_H_
#define TF_HSM_CC_CUDA_TILE_ROW_SPAN_H_

#include <cstdint>

#include "cc/cuda/device/device.h"

namespace tf_hsm {
namespace gpu {

template <typename A>
struct RowSpan {
  int64_t first;  // row of the parameters
  int64_t index;  // of that among the touched rows
  int count;
  const A* dw;  // count times [width], `stride` apart
  int64_t stride;
  const A* db;  // [count]
};

// Threads that work together: a warp or a block.
template <int threads>
struct Team {
  TF_HSM_DEVICE static int Rank() {
    return threads == kWarp ? Lane() : ThreadIndex();
  }
  TF_HSM_DEVICE static void Sync() {
    if constexpr (threads == kWarp) {
      SyncWarp();
    } else {
      SyncBlock();
    }
  }
};

// Numbers that one thread takes at once, with as wide an access as 16 bytes.
template <typename V, int length>
struct alignas(length * sizeof(V) < 16 ? length * sizeof(V) : 16) Neighbours {
  V values[length];
};

template <int length, typename V>
TF_HSM_DEVICE const Neighbours<V, length>* InNeighbours(const V* numbers) {
  return reinterpret_cast<const Neighbours<V, length>*>(numbers);
}
template <int length, typename V>
TF_HSM_DEVICE Neighbours<V, length>* InNeighbours(V* numbers) {
  return reinterpret_cast<Neighbours<V, length>*>(numbers);
}

// Where a thread is that takes each `threads`-th piece of rows of `across`
// pieces.
class RowCursor {
 public:
  TF_HSM_DEVICE RowCursor(int rank, int threads, int across)
      : row_(rank / across),
        piece_(rank % across),
        rows_(threads / across),
        pieces_(threads % across),
        across_(across) {}

  TF_HSM_DEVICE int row() const { return row_; }
  TF_HSM_DEVICE int piece() const { return piece_; }
  TF_HSM_DEVICE void Next() {
    row_ += rows_;
    piece_ += pieces_;
    if (piece_ >= across_) {
      piece_ -= across_;
      ++row_;
    }
  }

 private:
  int row_, piece_;
  const int rows_, pieces_, across_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_ROW_SPAN_H_
