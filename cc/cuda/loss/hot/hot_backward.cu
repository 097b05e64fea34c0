// The backward at hot groups: see hot.h.

#include <type_traits>

#include "cc/cuda/loss/hot/hot_launch.h"
#include "cc/cuda/loss/hot/hot_sums.h"

namespace tf_hsm::gpu {

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotGradients(HotArguments<Product> in, const float* loss_grads,
             RowOutput<typename Product::Weight> out) {
  using Sums = HotSums<Product, true>;
  Sums work(in);
  const int pieces = in.slabs.count * Sums::kParts;
  // 32 bits are enough, of hot items, and registers are short.
  const auto count = static_cast<uint32_t>(
      in.buffers.plan.counts->work.hot_backward_items * pieces);
  for (auto i = static_cast<uint32_t>(BlockIndex()); i < count;
       i += static_cast<uint32_t>(NumBlocks())) {
    const auto piece = static_cast<int>(i % pieces);
    if (work.Take(in.buffers.backward_items[i / pieces],
                  piece % Sums::kParts)) {
      work.Backward(piece / Sums::kParts, loss_grads, out);
    }
  }
}

template <typename T>
void LaunchHotBackward(const Batch<T>& batch, const Buffers<T>& buffers,
                       const LaunchShape& shape, const float* loss_grads,
                       const RowOutput<T>& out, void* stream) {
  auto launch = [&](const auto& in) {
    using Product = typename std::decay_t<decltype(in)>::ProductType;
    static_assert(HotSums<Product, true>::SharedBytes() <=
                      HotSharedBytes(Product::kBlocks > 1),
                  "what the dispatch asks for");
    Launch(HotGradients<Product>, shape.blocks, Product::kThreads,
           HotSums<Product, true>::SharedBytes(), stream, in, loss_grads, out);
  };
  WithHotSums(batch, buffers, shape, launch);
}

#define TF_HSM_INSTANTIATE(T) TF_HSM_MAKE(LaunchHotBackward, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
