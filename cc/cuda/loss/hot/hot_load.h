// Loads of panels, see hot_product.h, and what the kernels of hot groups get.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_

#include <cstdint>

#include "cc/cuda/loss/hot/hot_product.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm {
namespace gpu {

// Panels on their way or in use.
constexpr int kHotStages = 3;

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

TF_HSM_HOST_DEVICE constexpr int Log2(int power) {
  return power <= 1 ? 0 : 1 + Log2(power / 2);
}

// Starts to load panel_rows x panel_columns numbers, of which `rows` x
// `columns` are there and the others 0, by copies of `copy_bytes` or, if that
// is 0, one by one. Each thread copies from every so many rows, always in the
// same columns.
template <int threads, int panel_rows, int panel_columns, typename U>
TF_HSM_DEVICE void LoadPanel(const U* from, int64_t width, int rows,
                             int columns, int copy_bytes, int stride, U* to) {
  constexpr int kBytes = static_cast<int>(sizeof(U));
  const int log_bytes = copy_bytes == 16  ? 4
                        : copy_bytes == 8 ? 3
                        : copy_bytes == 4 ? 2
                                          : Log2(kBytes);
  const int log_across = Log2(panel_columns * kBytes) - log_bytes;
  const int first = ThreadIndex() >> log_across;
  const int column = (ThreadIndex() - (first << log_across))
                     << (log_bytes - Log2(kBytes));
  const int step = threads >> log_across;
  const int count =
      Larger(Smaller(columns - column, 1 << (log_bytes - Log2(kBytes))), 0);
  const U* source = from + first * width + column;
  U* target = to + first * stride + column;
  TF_HSM_NO_UNROLL
  for (int row = first; row < panel_rows; row += step) {
    const int valid = row < rows ? count : 0;
    const U* there = valid > 0 ? source : from;
    if (copy_bytes == 16) {
      CopyAsync<16>(AddressOf(target), there, valid * kBytes);
    } else if (copy_bytes == 8) {
      CopyAsync<8>(AddressOf(target), there, valid * kBytes);
    } else if (copy_bytes == 4) {
      CopyAsync<4>(AddressOf(target), there, valid * kBytes);
    } else {
      *target = valid > 0 ? *there : U{};
    }
    source += step * width;
    target += step * stride;
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_
