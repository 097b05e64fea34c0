// The entry points of the backward and of updates in place: see gpu.h.

#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/rows.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename Product, typename T>
void LaunchWide(const WideArguments<T>& in, const Accumulator<T>* loss_grads,
                const RowOutput<T>& out, int64_t blocks, void* stream) {
  Launch(BackwardWide<Product>, blocks, kTileThreads,
         BackwardSharedBytes<Product>(in.slabs.columns), stream, in, loss_grads,
         out);
}

template <typename T>
std::string Run(const Batch<T>& batch, const Memory& memory,
                const Accumulator<T>* loss_grads, const RowOutput<T>& out,
                void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty()) return error;
  if (batch.size == 0) return "";
  const DeviceLimits device = CurrentDevice();
  const LaunchShape shape = ShapeOf(batch, device);
  Buffers<T> buffers;
  LayOut(batch, memory, shape, &buffers);
  const Bounds& bounds = buffers.bounds;
  const RowArguments<T> rows = {batch.width, batch.shape.small_fanout,
                                loss_grads, buffers, out};
  // Before the first launch: a step is made as a whole or not at all.
  const int64_t bytes = SmallRowsBytes(rows);
  const int warps = WarpsFor(bytes, device);
  if (bounds.small_items > 0 && warps == 0) return TooWide(batch.width);
  if (bounds.backward_items > 0) {
    ListItems(ItemKind::kBackward, bounds, buffers.plan, buffers.backward_items,
              stream);
    const WideArguments<T> in = WideArgumentsOf(batch, shape.slabs, buffers);
    if constexpr (sizeof(T) < sizeof(double)) {
      if (UsesTensorCores(batch, device)) {
        LaunchWide<MmaProduct<T>>(in, loss_grads, out, shape.blocks, stream);
      } else {
        LaunchWide<SimtProduct<T>>(in, loss_grads, out, shape.blocks, stream);
      }
    } else {
      LaunchWide<SimtProduct<T>>(in, loss_grads, out, shape.blocks, stream);
    }
    if constexpr (sizeof(T) < sizeof(double)) {
      if (buffers.hot_items > 0) {
        LaunchHotBackward(batch, buffers, shape, loss_grads, out, stream);
      }
    }
  }
  if (bounds.small_items > 0) {
    ListItems(ItemKind::kSmall, bounds, buffers.plan, buffers.small_items,
              stream);
    Launch(SmallRows<T>, Grid(CeilDivide(bounds.small_items, warps), device),
           warps * kWarp, warps * bytes, stream, rows);
  }
  if (bounds.merge_slots > 0) {
    Launch(MergeRows<T>, Grid(bounds.merge_slots, device), kRowThreads, 0,
           stream, rows);
  }
  return LaunchError();
}

}  // namespace

template <typename T>
std::string Backward(const Batch<T>& batch, const Memory& memory,
                     const Accumulator<T>* loss_grads,
                     const RowGradients<T>& gradients, void* stream) {
  RowOutput<T> out;
  out.gradients = gradients;
  const std::string error = Run(batch, memory, loss_grads, out, stream);
  if (!error.empty()) return error;
  Buffers<T> buffers;
  LayOut(batch, memory, ShapeOf(batch, CurrentDevice()), &buffers);
  ListRows(buffers.plan, gradients.rows, gradients.capacity, stream);
  return LaunchError();
}

template <typename T>
std::string ApplyUpdate(const Batch<T>& batch, const Memory& memory,
                        const Accumulator<T>* loss_grads,
                        const Update<T>& update, void* stream) {
  RowOutput<T> out;
  out.update = update;
  out.updates = true;
  return Run(batch, memory, loss_grads, out, stream);
}

#define TF_HSM_INSTANTIATE(T)                                                  \
  template std::string Backward<T>(const Batch<T>&, const Memory&,             \
                                   const Accumulator<T>*,                      \
                                   const RowGradients<T>&, void*);             \
  template std::string ApplyUpdate<T>(const Batch<T>&, const Memory&,          \
                                      const Accumulator<T>*, const Update<T>&, \
                                      void*);
TF_HSM_INSTANTIATE(float)
TF_HSM_INSTANTIATE(double)
TF_HSM_INSTANTIATE(bfloat16)
TF_HSM_INSTANTIATE(half)
#undef TF_HSM_INSTANTIATE

}  // namespace gpu
}  // namespace tf_hsm
