// The forward of a batch that is not taken in chunks: see run.h.

#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/label_tree.h"
#include "cc/cuda/loss/path.h"
#include "cc/cuda/loss/run.h"

namespace tf_hsm::gpu {

template <typename T>
std::string RunForward(const LossLauncher<T>& launcher,
                       const LossOutputs<T>& outputs) {
  const Batch<T>& batch = launcher.batch;
  if (batch.visits != nullptr) {
    LaunchVisits(launcher, outputs);
    return LaunchError();
  }
  const Buffers<T>& buffers = launcher.buffers;
  const LaunchShape& shape = launcher.shape;
  const int64_t path_bytes = 2 * batch.width * sizeof(Accumulator<T>);
  const int warps = launcher.Warps(path_bytes);
  if (warps == 0) return TooWide(batch.width);
  if (buffers.bounds.forward_items > 0) {
    const bool with_dx = outputs.dx != nullptr;
    launcher.AddNodeSums(nullptr);
    launcher.AtLargeGroups([&](auto name, const LargeArguments<T>& in) {
      using Product = typename decltype(name)::Product;
      Launch(ForwardLarge<Product>, shape.blocks, kTileThreads, in.shared_bytes,
             launcher.stream, in, with_dx);
    });
    if constexpr (kSumsInFloat<T>) {
      if (buffers.bounds.hot_items > 0) {
        LaunchHotForward(batch, buffers, shape, with_dx, launcher.stream);
      }
    }
  }
  const PathArguments<T> in = {batch.tree,
                               batch.weights,
                               batch.biases,
                               batch.width,
                               batch.shape.small_fanout,
                               batch.z_loss,
                               buffers,
                               outputs};
  launcher.PerWarp(WalkPaths<T>, batch.size, warps, path_bytes, in);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(RunForward, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
