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

namespace tf_hsm::gpu {

template <typename A>
struct RowSpan {
  int64_t first;  // row of the parameters
  int64_t index;  // of that among the touched rows
  int count;
  A* dw;  // count times [width], `stride` apart
  int64_t stride;
  A* db;  // [count]
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

// Where a thread is that takes each `threads`-th piece of `length` neighbours
// of rows of `width`, and where the gradient of the piece lies.
class RowCursor {
 public:
  TF_HSM_DEVICE RowCursor(int rank, int threads, int length, int width,
                          int64_t stride)
      : row_(rank / (width / length)),
        column_(rank % (width / length) * length),
        gradient_(row_ * static_cast<int>(stride) + column_),
        rows_(threads / (width / length)),
        columns_(threads % (width / length) * length),
        step_(rows_ * static_cast<int>(stride) + columns_),
        width_(width),
        gap_(static_cast<int>(stride) - width) {}

  TF_HSM_DEVICE int row() const { return row_; }
  TF_HSM_DEVICE int column() const { return column_; }
  TF_HSM_DEVICE int gradient() const { return gradient_; }
  TF_HSM_DEVICE void Next() {
    row_ += rows_;
    column_ += columns_;
    gradient_ += step_;
    if (column_ < width_) return;
    ++row_;
    column_ -= width_;
    gradient_ += gap_;
  }

 private:
  int row_, column_, gradient_;
  const int rows_, columns_, step_, width_, gap_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_ROW_SPAN_H_
