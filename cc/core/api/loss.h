// Loss, dx, dW and db of a batch, or a whole training step: which kernel runs
// on what, in which order.

#ifndef TF_HSM_CC_CORE_API_LOSS_H_
#define TF_HSM_CC_CORE_API_LOSS_H_

#include <cstdint>

#include "cc/core/base/parallel.h"
#include "cc/core/base/types.h"
#include "cc/core/plan/plan.h"
#include "cc/core/table/kernel_table.h"

namespace tf_hsm {

// Probabilities are kept for the backward up to this many bytes; above, the
// backward makes them again from the weights and the saved normalizers.
constexpr int64_t kMaxKeptBytes = int64_t{256} << 20;

// A training step keeps fewer probabilities, up to this many bytes.
constexpr int64_t kMaxStepBytes = int64_t{512} << 20;

// For rows this narrow (numbers), making probabilities again takes less time
// than reading them, unless they are few enough for a cache (bytes).
constexpr int64_t kNarrowWidth = 64;
constexpr int64_t kMaxNarrowBytes = int64_t{4} << 20;

// Whether the backward is to find the probabilities; at most `max_bytes`.
template <typename T>
bool KeepsProbs(const Plan& plan, int64_t width, int64_t max_bytes) {
  const int64_t limit = width <= kNarrowWidth ? kMaxNarrowBytes : max_bytes;
  return plan.num_probs <= limit / static_cast<int64_t>(sizeof(Accumulator<T>));
}

// A training step has partial gradients for as many groups of two rows as fit
// into this many bytes. All groups would need up to batch x depth x width / 16
// numbers.
constexpr int64_t kMaxPartialBytes = int64_t{256} << 20;

// The number of partial gradients that fit.
template <typename T>
int64_t MaxPartials(int64_t width) {
  return kMaxPartialBytes /
         (PartialStride(width) * static_cast<int64_t>(sizeof(Accumulator<T>)));
}

// Whether the dx of `batch` examples, some of which the plan may leave out,
// must hold zeros before Forward or TrainStep: where there are small groups,
// these write the dx of all examples of the plan.
bool AddsDx(const Plan& plan, int64_t batch);

// Adds loss to an output that holds zeros, and makes dx, which holds zeros
// where AddsDx; fills normalizers and probs.
template <typename T>
void Forward(const Problem<T>& problem, const KernelTable<T>& table,
             const Parallel& parallel, const ForwardOutputs<T>& outputs);

// Fills dw and db of all touched rows, or applies the update to them.
template <typename T>
void Backward(const Problem<T>& problem, const KernelTable<T>& table,
              const Parallel& parallel, const BackwardArguments<T>& arguments);

// Gives places to partial gradients of the groups of two rows that several
// blocks share, `max_partials` at most; plan->num_partials is their number.
// Gives up the places of probabilities that a training step need not keep,
// those of the nodes that it updates at once or by partial gradients;
// plan->num_probs is what is left.
void PlanTraining(Plan* plan, int64_t max_partials);

// Whether a training step of `plan`, which comes from PlanTraining, reads the
// inputs of a span of examples in the work item of that span alone. It may then
// read VectorInputs.
bool ReadsVectors(const Plan& plan);

// A tree of one group whose probabilities are too many to keep is taken in
// chunks of examples, of which each makes its probabilities, dx and a part of
// dW: 6 N B D operations, where making the probabilities again would take 8.
// The sums of dW take no more memory than all probabilities would.
template <typename T>
bool TakesChunks(const Plan& plan, int64_t width) {
  return plan.nodes.size() == 1 && plan.num_large == 1 &&
         width > kNarrowWidth && width <= plan.num_examples() &&
         !KeepsProbs<T>(plan, width, kMaxKeptBytes);
}

// The probabilities of a chunk take about as many bytes.
constexpr int64_t kChunkBytes = int64_t{128} << 20;

// Examples of a chunk of such a tree, whole work items.
template <typename T>
int64_t ChunkExamples(const Plan& plan) {
  const int64_t most = kChunkBytes /
                       static_cast<int64_t>(sizeof(Accumulator<T>)) /
                       plan.nodes[0].fanout;
  return most < kMaxTileExamples ? kMaxItemExamples
                                 : most / kMaxTileExamples * kMaxTileExamples;
}

// Forward and Backward of a tree of one group with `chunk` examples at a time.
// Fills `sums`, and applies the update to them if `arguments` have one. `probs`
// [chunk * fanout] is scratch. The outputs' dx holds zeros.
template <typename T>
void LossInChunks(const Problem<T>& problem, const KernelTable<T>& table,
                  const Parallel& parallel, const ForwardOutputs<T>& outputs,
                  const BackwardArguments<T>& arguments, int64_t chunk,
                  Accumulator<T>* probs, GradientSums<Accumulator<T>> sums);

// What a training step of `plan`, and then a sparse update by its dx or their
// sums, ask of a thread's memory.
template <typename T>
class StepMemory {
 public:
  StepMemory(const Plan& plan, int64_t width, const KernelTable<T>& table);

  // Reserves it on this thread. Throws std::bad_alloc.
  void Reserve() const;

 private:
  void (*reserve_step_)(int64_t examples, int64_t width);
  int64_t examples_, width_;
  int64_t probs_ = 0;  // of one item
};

// Makes loss and dx as Forward does, those of the parameters before the step,
// and applies the update that `arguments` has. dx is that of the total that the
// step minimizes: each example's is multiplied by its loss_grads. The weights
// of a node are updated right after their part of loss and dx, while they are
// in the cache, where few examples pass the node. `outputs` has the probs, or,
// if they are not kept, the normalizers; these and the partials are scratch.
// Where the problem has vectors, their sums take the place of dx, and those
// that are whole are applied; the caller applies the others. problem.plan comes
// from PlanTraining. Once it has changed a row, it needs no memory on threads
// that have reserved StepMemory.
template <typename T>
void TrainStep(const Problem<T>& problem, const KernelTable<T>& table,
               const Parallel& parallel, const ForwardOutputs<T>& outputs,
               const BackwardArguments<T>& arguments);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_LOSS_H_
