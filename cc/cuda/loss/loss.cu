// The entry points of the loss: see gpu.h.

#include <algorithm>
#include <vector>

#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/chunks.h"
#include "cc/cuda/loss/run.h"

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
  const int64_t examples = ChunkExamples(batch, logits_bytes);
  if (examples > 0) return ChunkMemory<T>(batch, examples, none).sizes;
  return LossLauncher<T>(batch, none, nullptr).sizes;
}

template <typename T>
std::string PlanForward(const Batch<T>& batch, const Memory& memory,
                        Accumulator<T>* loss, void* stream) {
  std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const int64_t examples = ChunkExamples(batch, memory.logits_bytes);
  if (examples > 0) {
    Chunks<T>(batch, examples, memory, stream).Count();
    return LaunchError();
  }
  error = LossLauncher<T>(batch, memory, stream).Plan(loss);
  return error.empty() ? LaunchError() : error;
}

template <typename T>
std::string FinishForward(const Batch<T>& batch, const Memory& memory,
                          const LossOutputs<T>& outputs, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const int64_t examples = ChunkExamples(batch, memory.logits_bytes);
  if (examples > 0) {
    return Chunks<T>(batch, examples, memory, stream).Forward(outputs);
  }
  return RunForward(LossLauncher<T>(batch, memory, stream), outputs);
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
  if (ChunkExamples(batch, memory.logits_bytes) > 0) {
    return static_cast<const int64_t*>(memory.state);
  }
  const LossLauncher<T> launcher(batch, memory, nullptr);
  return &launcher.buffers.plan.counts->num_rows;
}

template <typename T>
std::string Backward(const Batch<T>& batch, const Memory& memory,
                     const Accumulator<T>* loss_grads,
                     const RowGradients<T>& gradients, void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty()) return error;
  const RowOutput<T> out = OutputTo(gradients, batch.width);
  const int64_t examples = ChunkExamples(batch, memory.logits_bytes);
  if (examples > 0) {
    return Chunks<T>(batch, examples, memory, stream)
        .Backward(nullptr, loss_grads, out, gradients.rows, gradients.capacity);
  }
  const LossLauncher<T> launcher(batch, memory, stream);
  if (batch.size > 0) {
    return RunBackward(launcher, loss_grads, out, gradients.rows,
                       gradients.capacity);
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
  const RowOutput<T> out = OutputTo(update, batch.width);
  const int64_t examples = ChunkExamples(batch, memory.logits_bytes);
  if (examples > 0) {
    return Chunks<T>(batch, examples, memory, stream)
        .Backward(nullptr, loss_grads, out, nullptr, 0);
  }
  return RunBackward(LossLauncher<T>(batch, memory, stream), loss_grads, out,
                     nullptr, 0);
}

template <typename T>
std::string TrainStep(const Batch<T>& batch, const Memory& memory,
                      const LossOutputs<T>& outputs,
                      const Accumulator<T>* loss_grads,
                      const DeviceUpdate<T>& update, void* stream) {
  std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const int64_t examples = ChunkExamples(batch, memory.logits_bytes);
  if (examples > 0) {
    const Chunks<T> chunks(batch, examples, memory, stream);
    chunks.Count();
    return chunks.Backward(&outputs, loss_grads, OutputTo(update, batch.width),
                           nullptr, 0);
  }
  error = Forward(batch, memory, outputs, stream);
  if (!error.empty()) return error;
  return ApplyUpdate(batch, memory, loss_grads, update, stream);
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(SizesOf, T)          \
  TF_HSM_MAKE(PlanForward, T)      \
  TF_HSM_MAKE(FinishForward, T)    \
  TF_HSM_MAKE(Forward, T)          \
  TF_HSM_MAKE(MaxTouchedRows, T)   \
  TF_HSM_MAKE(NumTouchedRows, T)   \
  TF_HSM_MAKE(Backward, T)         \
  TF_HSM_MAKE(ApplyUpdate, T) TF_HSM_MAKE(TrainStep, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
