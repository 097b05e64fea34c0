// Launches the forward at hot groups: see hot.h.

#include "cc/cuda/loss/hot/hot_launch.h"
#include "cc/cuda/loss/hot/hot_logits.h"
#include "cc/cuda/loss/hot/hot_sums.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename Product>
void LaunchAll(const HotArguments<Product>& in, bool with_dx, int64_t blocks,
               void* stream) {
  static_assert(HotLogitsOf<Product>::SharedBytes() <=
                        HotSharedBytes(Product::kBlocks > 1) &&
                    HotSums<Product, false>::SharedBytes() <=
                        HotSharedBytes(Product::kBlocks > 1),
                "what the dispatch asks for");
  Launch(HotLogits<Product>, blocks, Product::kThreads,
         HotLogitsOf<Product>::SharedBytes(), stream, in);
  if (!with_dx) return;
  Launch(HotRows<Product>, blocks, Product::kThreads,
         HotSums<Product, false>::SharedBytes(), stream, in);
}

}  // namespace

template <typename T>
void LaunchHotForward(const Batch<T>& batch, const Buffers<T>& buffers,
                      const LaunchShape& shape, bool with_dx, void* stream) {
  WithHotProduct(batch, buffers, shape, [&](const auto& in) {
    LaunchAll(in, with_dx, shape.blocks, stream);
  });
}

#define TF_HSM_INSTANTIATE(T) TF_HSM_MAKE(LaunchHotForward, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace gpu
}  // namespace tf_hsm
