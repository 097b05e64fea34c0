// The launches at hot groups: see hot.h.

#include <cstdint>
#include <type_traits>

#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/hot/hot_logits.h"
#include "cc/cuda/loss/hot/hot_sums.h"
#include "cc/cuda/loss/hot/wide_product.h"

namespace tf_hsm::gpu {
namespace {

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

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotGradients(HotArguments<Product> in,
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
      work.Backward(piece / Sums::kParts, out);
    }
  }
}

// The slabs of the sums, an eighth of which is whole fragments of WideMma.
template <typename Product>
Slabs HotSlabs(int64_t width) {
  const int64_t count = CeilDivide(width, Product::kSumColumns);
  return {static_cast<int>(RoundUp(CeilDivide(width, count), 64)),
          static_cast<int>(count)};
}

template <typename Product, typename T>
HotArguments<Product> HotArgumentsOf(const Batch<T>& batch,
                                     const Buffers<T>& buffers,
                                     const Slabs& slabs) {
  const auto* x = InputsOf<Product>(buffers);
  return {batch.weights,
          batch.biases,
          x,
          batch.width,
          slabs,
          CopyBytes(batch.weights, batch.width),
          CopyBytes(x, batch.width),
          buffers};
}

// use(arguments) of the sums.
template <typename T, typename Use>
void WithHotSums(const Batch<T>& batch, const Buffers<T>& buffers,
                 const LaunchShape& shape, const Use& use) {
  if (!shape.tensor_cores) {
    return use(HotArgumentsOf<HotSimt<T>>(batch, buffers,
                                          HotSlabs<HotSimt<T>>(batch.width)));
  }
  use(HotArgumentsOf<WideMma<T>>(batch, buffers,
                                 HotSlabs<WideMma<T>>(batch.width)));
}

}  // namespace

template <typename T>
void LaunchHotForward(const Batch<T>& batch, const Buffers<T>& buffers,
                      const LaunchShape& shape, bool with_dx, void* stream) {
  auto launch_logits = [&](const auto& in) {
    using Product = typename std::decay_t<decltype(in)>::ProductType;
    constexpr int64_t kBytes = HotLogitsOf<Product>::SharedBytes();
    static_assert(kBytes <= HotSharedBytes(Product::kBlocks > 1),
                  "what the dispatch asks for");
    Launch(HotLogits<Product>, shape.blocks, Product::kThreads, kBytes, stream,
           in);
  };
  if (shape.tensor_cores) {
    launch_logits(HotArgumentsOf<HotMma<T>>(batch, buffers, {}));
  } else {
    launch_logits(HotArgumentsOf<HotSimt<T>>(batch, buffers, {}));
  }
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

template <typename T>
void LaunchHotBackward(const Batch<T>& batch, const Buffers<T>& buffers,
                       const LaunchShape& shape, const RowOutput<T>& out,
                       void* stream) {
  WithHotSums(batch, buffers, shape, [&](const auto& in) {
    using Product = typename std::decay_t<decltype(in)>::ProductType;
    constexpr int64_t kBytes = HotSums<Product, true>::SharedBytes();
    static_assert(kBytes <= HotSharedBytes(Product::kBlocks > 1),
                  "what the dispatch asks for");
    Launch(HotGradients<Product>, shape.blocks, Product::kThreads, kBytes,
           stream, in, out);
  });
}

#define TF_HSM_INSTANTIATE(T) \
  TF_HSM_MAKE(LaunchHotForward, T) TF_HSM_MAKE(LaunchHotBackward, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
