// Loads of panels (panel.h), and what the kernels of hot groups get.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/loss/hot/hot_product.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {

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

// As LoadPanel. Each thread copies from every so many rows, always in the same
// columns. What CopyBytes allows divides `columns`: a copy is there as a whole
// or not at all.
template <int bytes, int threads, int panel_rows, int panel_columns, typename U>
TF_HSM_DEVICE void CopyPanel(const U* from, int64_t width, int rows,
                             int columns, int stride, U* to) {
  constexpr int kSize = static_cast<int>(sizeof(U));
  constexpr int kElements = bytes == 0 ? 1 : bytes / kSize;
  constexpr int kAcross = panel_columns / kElements;
  constexpr int kStep = threads / kAcross;
  const int first = ThreadIndex() / kAcross;
  const int column = ThreadIndex() % kAcross * kElements;
  const int own = column < columns ? rows - first : 0;
  const U* source = from + first * width + column;
  U* target = to + first * stride + column;
  const SharedAddress address = AddressOf(target);
  TF_HSM_UNROLL_4
  for (int row = 0; row < panel_rows; row += kStep) {
    if constexpr (bytes == 0) {
      target[row * stride] = row < own ? *source : U{};
    } else {
      CopyAsync<bytes>(address + row * stride * kSize, source,
                       row < own ? bytes : 0);
    }
    source += kStep * width;
  }
}

// Starts to load panel_rows x panel_columns numbers, of which `rows` x
// `columns` are there and the others 0, by copies of `copy_bytes` or, if that
// is 0, one by one.
template <int threads, int panel_rows, int panel_columns, typename U>
TF_HSM_DEVICE void LoadPanel(const U* from, int64_t width, int rows,
                             int columns, int copy_bytes, int stride, U* to) {
  auto copy = [&](auto bytes) {
    CopyPanel<decltype(bytes)::value, threads, panel_rows, panel_columns>(
        from, width, rows, columns, stride, to);
  };
  if (copy_bytes == 16) return copy(std::integral_constant<int, 16>());
  if (copy_bytes == 8) return copy(std::integral_constant<int, 8>());
  if (copy_bytes == 4) return copy(std::integral_constant<int, 4>());
  copy(std::integral_constant<int, 0>());
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOAD_H_
