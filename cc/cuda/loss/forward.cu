// The entry point of the forward, and sizes of memory: see gpu.h.

#include <algorithm>
#include <vector>

#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/loss/path.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename Product, typename T>
void LaunchWide(const WideArguments<T>& in, bool with_dx, int64_t blocks,
                void* stream) {
  Launch(ForwardWide<Product>, blocks, kTileThreads,
         ForwardSharedBytes<Product>(in.slabs.columns), stream, in, with_dx);
}

}  // namespace

TreeShape DescribeTree(const TreeView& tree) {
  TreeShape shape;
  std::vector<int64_t> depths(tree.num_groups), wide(tree.num_groups);
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    const int64_t fanout = tree.group_offsets[g + 1] - tree.group_offsets[g];
    const bool is_wide = fanout > kMaxSmallFanout;
    const int64_t above = g == 0 ? -1 : tree.row_groups[tree.group_parents[g]];
    depths[g] = 1 + (above < 0 ? 0 : depths[above]);
    wide[g] = (is_wide ? 1 : 0) + (above < 0 ? 0 : wide[above]);
    shape.depth = std::max(shape.depth, depths[g]);
    shape.wide_depth = std::max(shape.wide_depth, wide[g]);
    shape.max_fanout = std::max(shape.max_fanout, fanout);
    if (!is_wide) shape.small_fanout = std::max(shape.small_fanout, fanout);
  }
  return shape;
}

template <typename T>
MemorySizes SizesOf(const Batch<T>& batch, int64_t logits_bytes) {
  Buffers<T> buffers;
  return LayOut(batch, {nullptr, nullptr, logits_bytes},
                ShapeOf(batch, CurrentDevice()), &buffers);
}

template <typename T>
std::string Forward(const Batch<T>& batch, const Memory& memory,
                    const LossOutputs<T>& outputs, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const DeviceLimits device = CurrentDevice();
  const LaunchShape shape = ShapeOf(batch, device);
  const int warps = WarpsFor(2 * batch.width * sizeof(Accumulator<T>), device);
  if (warps == 0) return TooWide(batch.width);
  Buffers<T> buffers;
  LayOut(batch, memory, shape, &buffers);
  MakePlan(batch, buffers.bounds, buffers.hot_items, buffers.plan,
           buffers.plan_scratch, outputs.loss, stream);
  PackInputs(batch, buffers.plan.order, buffers.x, device, stream);
  if (buffers.bounds.forward_items > 0) {
    ListItems(ItemKind::kForward, buffers.bounds, buffers.plan,
              buffers.forward_items, stream);
    const WideArguments<T> in = WideArgumentsOf(batch, shape.slabs, buffers);
    const bool with_dx = outputs.dx != nullptr;
    if constexpr (sizeof(T) < sizeof(double)) {
      if (UsesTensorCores(batch, device)) {
        LaunchWide<MmaProduct<T>>(in, with_dx, shape.blocks, stream);
      } else {
        LaunchWide<SimtProduct<T>>(in, with_dx, shape.blocks, stream);
      }
    } else {
      LaunchWide<SimtProduct<T>>(in, with_dx, shape.blocks, stream);
    }
    if constexpr (sizeof(T) < sizeof(double)) {
      if (buffers.hot_items > 0) {
        LaunchHotForward(batch, buffers, shape, with_dx, stream);
      }
    }
  }
  const PathArguments<T> in = {batch.tree,
                               batch.weights,
                               batch.biases,
                               batch.width,
                               batch.shape.small_fanout,
                               buffers,
                               outputs};
  Launch(WalkPaths<T>, Grid(CeilDivide(batch.size, warps), device),
         warps * kWarp, warps * 2 * batch.width * sizeof(Accumulator<T>),
         stream, in);
  return LaunchError();
}

template <typename T>
int64_t MaxTouchedRows(const Batch<T>& batch) {
  return BoundsOf(batch.tree, batch.shape, batch.size, 0).rows;
}

template <typename T>
const int64_t* NumTouchedRows(const Batch<T>& batch, const Memory& memory) {
  Buffers<T> buffers;
  LayOut(batch, memory, ShapeOf(batch, CurrentDevice()), &buffers);
  return &buffers.plan.counts->num_rows;
}

#define TF_HSM_INSTANTIATE(T)                                     \
  template MemorySizes SizesOf<T>(const Batch<T>&, int64_t);      \
  template std::string Forward<T>(const Batch<T>&, const Memory&, \
                                  const LossOutputs<T>&, void*);  \
  template int64_t MaxTouchedRows<T>(const Batch<T>&);            \
  template const int64_t* NumTouchedRows<T>(const Batch<T>&, const Memory&);
TF_HSM_INSTANTIATE(float)
TF_HSM_INSTANTIATE(double)
TF_HSM_INSTANTIATE(bfloat16)
TF_HSM_INSTANTIATE(half)
#undef TF_HSM_INSTANTIATE

}  // namespace gpu
}  // namespace tf_hsm
