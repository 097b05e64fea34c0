// Launches the backward at hot groups: see hot.h.

#include <type_traits>

#include "cc/cuda/loss/hot/hot_launch.h"
#include "cc/cuda/loss/hot/hot_sums.h"

namespace tf_hsm {
namespace gpu {

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

}  // namespace gpu
}  // namespace tf_hsm
