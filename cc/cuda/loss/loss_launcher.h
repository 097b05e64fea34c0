// What the entry points of the loss share: a batch, the memory that it was
// given, and the device that it runs on.

#ifndef TF_HSM_CC_CUDA_LOSS_LOSS_LAUNCHER_H_
#define TF_HSM_CC_CUDA_LOSS_LOSS_LAUNCHER_H_

#include <cstdint>
#include <string>

#include "cc/cuda/device/launcher.h"
#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/tile/node_sums.h"

namespace tf_hsm::gpu {

// Launches for a batch that CheckBatch has passed.
template <typename T>
struct LossLauncher : Launcher {
  LossLauncher(const Batch<T>& the_batch, const Memory& memory, void* on_stream)
      : Launcher(on_stream),
        batch(the_batch),
        shape(ShapeOf(batch, device)),
        sizes(LayOut(batch, memory, shape, &buffers)) {}

  // The part of the state that needs labels and inputs alone, with visits the
  // inputs, and the items of the forward. Returns an empty string, or a
  // sentence: then nothing more may be launched.
  std::string Plan(Accumulator<T>* loss) const {
    std::string error;
    if (batch.visits != nullptr) {
      ListForward(buffers.bounds, buffers.plan, buffers.forward_items, stream);
    } else {
      const bool large = buffers.bounds.forward_items > 0;
      error =
          MakePlan(batch, buffers.bounds, buffers.plan, buffers.plan_scratch,
                   loss, large ? buffers.forward_items : nullptr, stream);
    }
    if (error.empty()) {
      PackInputs(*this, batch, buffers.plan.order, buffers.x, buffers.operands);
    }
    return error;
  }

  // Lists what the backward goes by, and the touched rows for a caller.
  void PrepareBackward(int64_t* rows, int64_t capacity) const {
    ListBackward(buffers.bounds, buffers.plan,
                 {buffers.backward_items, buffers.small_items, rows, capacity},
                 stream);
  }

  // What smoothed labels need of each large node: its mean row or, with
  // `loss_grads`, the sum of its inputs.
  void AddNodeSums(const Accumulator<T>* loss_grads) const {
    if (batch.label_smoothing == 0) return;
    const NodeSumArguments<T> in = {batch.weights, batch.biases, batch.width,
                                    loss_grads, buffers};
    const int64_t count =
        buffers.bounds.forward_items * ColumnPieces(batch.width);
    PerWarp(SumNodePieces<T>, count, kBlockThreads / kWarp, 0, in);
    PerWarp(MergeNodePieces<T>, count, kBlockThreads / kWarp, 0, in);
  }

  // use(ProductName, arguments) for a kernel at large groups.
  template <typename Use>
  void AtLargeGroups(const Use& use) const {
    WithProduct(batch, device, [&](auto name) {
      using Product = typename decltype(name)::Product;
      const LargeArguments<T> in = {
          batch.weights,
          batch.biases,
          batch.width,
          shape.slabs,
          CopyBytes(batch.weights, batch.width),
          CopyBytes(InputsOf<Product>(buffers), batch.width),
          Smaller(shape.forward_bytes,
                  ForwardSharedBytes<Product>(shape.slabs.columns, kMaxStages)),
          buffers};
      use(name, in);
    });
  }

  const Batch<T>& batch;
  LaunchShape shape;
  Buffers<T> buffers;
  MemorySizes sizes;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_LOSS_LAUNCHER_H_
