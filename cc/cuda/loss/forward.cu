// The entry point of the forward, and sizes of memory: see gpu.h.

#include <algorithm>
#include <vector>

#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/label_tree.h"
#include "cc/cuda/loss/loss_launcher.h"
#include "cc/cuda/loss/path.h"

namespace tf_hsm::gpu {
TreeShape DescribeTree(const TreeView& tree) {
  TreeShape shape;
  std::vector<int64_t> depths(tree.num_groups), large(tree.num_groups);
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    const int64_t fanout = tree.group_offsets[g + 1] - tree.group_offsets[g];
    const bool is_large = fanout > kMaxSmallFanout;
    const int64_t parent = tree.group_parents[g];
    const int64_t above = parent < 0 ? -1 : tree.row_groups[parent];
    depths[g] = 1 + (above < 0 ? 0 : depths[above]);
    large[g] = (is_large ? 1 : 0) + (above < 0 ? 0 : large[above]);
    shape.depth = std::max(shape.depth, depths[g]);
    shape.large_depth = std::max(shape.large_depth, large[g]);
    shape.max_fanout = std::max(shape.max_fanout, fanout);
    if (!is_large) shape.small_fanout = std::max(shape.small_fanout, fanout);
  }
  return shape;
}

template <typename T>
MemorySizes SizesOf(const Batch<T>& batch, int64_t logits_bytes) {
  const Memory none = {nullptr, nullptr, logits_bytes};
  return LossLauncher<T>(batch, none, nullptr).sizes;
}

template <typename T>
std::string PlanForward(const Batch<T>& batch, const Memory& memory,
                        Accumulator<T>* loss, void* stream) {
  std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  error = LossLauncher<T>(batch, memory, stream).Plan(loss);
  return error.empty() ? LaunchError() : error;
}

template <typename T>
std::string FinishForward(const Batch<T>& batch, const Memory& memory,
                          const LossOutputs<T>& outputs, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const LossLauncher<T> launcher(batch, memory, stream);
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
             stream, in, with_dx);
    });
    if constexpr (kSumsInFloat<T>) {
      if (buffers.bounds.hot_items > 0) {
        LaunchHotForward(batch, buffers, shape, with_dx, stream);
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

template <typename T>
std::string Forward(const Batch<T>& batch, const Memory& memory,
                    const LossOutputs<T>& outputs, void* stream) {
  const std::string error = PlanForward(batch, memory, outputs.loss, stream);
  if (!error.empty()) return error;
  return FinishForward(batch, memory, outputs, stream);
}

template <typename T>
int64_t MaxTouchedRows(const Batch<T>& batch) {
  return BoundsOf(batch.tree, batch.shape, batch.size, 0, 0, kTileExamples)
      .rows;
}

template <typename T>
const int64_t* NumTouchedRows(const Batch<T>& batch, const Memory& memory) {
  const LossLauncher<T> launcher(batch, memory, nullptr);
  return &launcher.buffers.plan.counts->num_rows;
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(SizesOf, T)          \
  TF_HSM_MAKE(PlanForward, T)      \
  TF_HSM_MAKE(FinishForward, T)    \
  TF_HSM_MAKE(Forward, T)          \
  TF_HSM_MAKE(MaxTouchedRows, T) TF_HSM_MAKE(NumTouchedRows, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
