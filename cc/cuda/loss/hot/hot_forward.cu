// The forward at hot groups: see hot.h.

#include <type_traits>

#include "cc/cuda/loss/hot/hot_launch.h"
#include "cc/cuda/loss/hot/hot_logits.h"
#include "cc/cuda/loss/hot/hot_sums.h"

namespace tf_hsm::gpu {

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotRows(HotArguments<Product> in) {
  using Sums = HotSums<Product, false>;
  Sums work(in);
  const int pieces = in.slabs.count * Sums::kParts;
  const int64_t count = in.buffers.plan.counts->work.forward_items * pieces;
  for (int64_t i = BlockIndex(); i < count; i += NumBlocks()) {
    const auto piece = static_cast<int>(i % pieces);
    if (work.Take(in.buffers.forward_items[i / pieces], piece % Sums::kParts)) {
      work.Forward(piece / Sums::kParts);
    }
  }
}

template <typename T>
void LaunchHotForward(const Batch<T>& batch, const Buffers<T>& buffers,
                      const LaunchShape& shape, bool with_dx, void* stream) {
  WithHotLogits(batch, buffers, shape, [&](const auto& in) {
    using Product = typename std::decay_t<decltype(in)>::ProductType;
    constexpr int64_t kBytes = HotLogitsOf<Product>::SharedBytes();
    static_assert(kBytes <= HotSharedBytes(Product::kBlocks > 1),
                  "what the dispatch asks for");
    Launch(HotLogits<Product>, shape.blocks, Product::kThreads, kBytes, stream,
           in);
  });
  if (!with_dx) return;
  WithHotSums(batch, buffers, shape, [&](const auto& in) {
    using Product = typename std::decay_t<decltype(in)>::ProductType;
    constexpr int64_t kBytes = HotSums<Product, false>::SharedBytes();
    static_assert(kBytes <= HotSharedBytes(Product::kBlocks > 1),
                  "what the dispatch asks for");
    Launch(HotRows<Product>, shape.blocks, Product::kThreads, kBytes, stream,
           in);
  });
}

#define TF_HSM_INSTANTIATE(T) TF_HSM_MAKE(LaunchHotForward, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
