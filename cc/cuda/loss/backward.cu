// The entry points of the backward and of updates in place: see gpu.h.

#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/loss_launcher.h"
#include "cc/cuda/loss/rows.h"

namespace tf_hsm::gpu {
namespace {

template <typename T>
std::string Run(const LossLauncher<T>& launcher,
                const Accumulator<T>* loss_grads, const RowOutput<T>& out,
                int64_t* touched, int64_t capacity) {
  const Batch<T>& batch = launcher.batch;
  const Buffers<T>& buffers = launcher.buffers;
  const LaunchShape& shape = launcher.shape;
  const Bounds& bounds = buffers.bounds;
  const RowArguments<T> rows = {
      batch.width,
      batch.shape.small_fanout,
      batch.tree.weight_rows_of(batch.shape.small_fanout),
      loss_grads,
      buffers,
      out};
  // Before the first launch: a step is made as a whole or not at all.
  const int64_t bytes = SmallRowsBytes(rows);
  const int warps = launcher.Warps(bytes);
  if (bounds.small_items > 0 && warps == 0) return TooWide(batch.width);
  launcher.PrepareBackward(touched, capacity);
  if (bounds.backward_items > 0) {
    launcher.PerThread(MakePassTerms<Accumulator<T>>, bounds.passes,
                       buffers.plan, bounds.passes, buffers.normalizers,
                       loss_grads, batch.label_smoothing, buffers.pass_terms);
    launcher.AddNodeSums(loss_grads);
    launcher.AtLargeGroups([&](auto name, const LargeArguments<T>& in) {
      using Product = typename decltype(name)::Product;
      Launch(BackwardLarge<Product>, shape.blocks, kTileThreads,
             BackwardSharedBytes<Product>(in.slabs.columns), launcher.stream,
             in, loss_grads, out);
    });
    if constexpr (kSumsInFloat<T>) {
      if (buffers.bounds.hot_items > 0) {
        LaunchHotBackward(batch, buffers, shape, loss_grads, out,
                          launcher.stream);
      }
    }
  }
  // What failed may have left parts that are never written.
  const std::string error = LaunchError();
  if (!error.empty()) return error;
  if (bounds.small_items > 0) {
    launcher.PerWarp(SmallRows<T>, bounds.small_items, warps, bytes, rows);
  }
  if (bounds.merge_slots > 0) {
    Launch(MergeRows<T>, launcher.Grid(bounds.merge_slots), kRowThreads,
           kRowThreads / kWarp * sizeof(RowTerms<Accumulator<T>>),
           launcher.stream, rows);
  }
  return LaunchError();
}

}  // namespace

template <typename T>
std::string Backward(const Batch<T>& batch, const Memory& memory,
                     const Accumulator<T>* loss_grads,
                     const RowGradients<T>& gradients, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty()) return error;
  const LossLauncher<T> launcher(batch, memory, stream);
  if (batch.size > 0) {
    return Run(launcher, loss_grads, OutputTo(gradients, batch.width),
               gradients.rows, gradients.capacity);
  }
  launcher.PrepareBackward(gradients.rows, gradients.capacity);
  return LaunchError();
}

template <typename T>
std::string ApplyUpdate(const Batch<T>& batch, const Memory& memory,
                        const Accumulator<T>* loss_grads,
                        const DeviceUpdate<T>& update, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  return Run(LossLauncher<T>(batch, memory, stream), loss_grads,
             OutputTo(update, batch.width), nullptr, 0);
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(Backward, T) TF_HSM_MAKE(ApplyUpdate, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
