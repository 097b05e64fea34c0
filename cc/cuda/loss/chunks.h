// Takes the batch of a flat tree in chunks of examples, where the logits of all
// have no room. Products of matrices are fast; the other kernels are not.
//
// The forward takes one chunk after the other. The backward makes the logits of
// each chunk once more, and adds up the gradients of all rows in float32; then
// they go out, or change the rows, as a whole. A train step makes loss and
// gradient of a chunk at once.
//
// Bytes: the rows once per chunk and pass, and each sum read and written once
// per chunk. FLOPs: as for a whole batch, and 2 per weight and example for the
// logits that the backward makes again.

#ifndef TF_HSM_CC_CUDA_LOSS_CHUNKS_H_
#define TF_HSM_CC_CUDA_LOSS_CHUNKS_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/loss/run.h"
#include "cc/cuda/plan/paths.h"

namespace tf_hsm::gpu {

// The state: the number of touched rows, which are all rows or none.
TF_HSM_KERNEL(kBlockThreads)
CountFlatRows(Labels labels, int64_t* count) {
  auto* found = reinterpret_cast<int*>(SharedMemory());
  int own = 0;
  for (int64_t i = ThreadIndex(); i < labels.size && own == 0;
       i += NumThreads()) {
    own = DepthOfExample(labels, i);
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    own |= ShuffleXor(own, lanes);
  }
  if (Lane() == 0) found[WarpIndex()] = own;
  SyncBlock();
  if (ThreadIndex() > 0) return;
  for (int i = 0; i < NumThreads() / kWarp; ++i) own |= found[i];
  *count = own == 0 ? 0 : labels.tree.num_rows;
}

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
ClearSums(int64_t size, A* sums) {
  for (int64_t i = GlobalIndex(); i < size; i += NumBlocks() * NumThreads()) {
    sums[i] = 0;
  }
}

// Gives all sums out, by a warp a row, and lists the rows.
template <typename T>
TF_HSM_KERNEL(kBlockThreads)
EmitSums(int64_t num_rows, int64_t width, RowOutput<T> sums, RowOutput<T> out,
         const int64_t* count, int64_t* touched, int64_t capacity) {
  auto* terms = reinterpret_cast<RowTerms<Accumulator<T>>*>(SharedMemory());
  const int warps = NumThreads() / kWarp;
  for (int64_t row = BlockIndex() * warps + WarpIndex();
       row < Larger(num_rows, capacity); row += NumBlocks() * warps) {
    if (row < capacity && Lane() == 0) touched[row] = row < *count ? row : -1;
    if (row >= *count) continue;
    Accumulator<T>* own = sums.sums + row * sums.sums_stride;
    EmitRows<kWarp>(out, {row, row, 1, own, 0, own + width}, width,
                    terms + WarpIndex());
    SyncWarp();
  }
}

// What a batch in chunks has in its scratch.
template <typename T>
struct ChunkMemory {
  using A = Accumulator<T>;

  ChunkMemory(const Batch<T>& batch, int64_t examples, const Memory& of_batch) {
    const Memory none = {nullptr, nullptr, of_batch.logits_bytes};
    const Batch<T> first = ExamplesOf(batch, 0, examples);
    const MemorySizes own = LossLauncher<T>(first, none, nullptr).sizes;
    Arena arena(of_batch.scratch);
    arena.Take(own.state, &memory.state);
    sizes.state = sizeof(*count);
    sizes.forward_scratch = arena.bytes() + own.forward_scratch;
    arena.Take(own.scratch(), &memory.scratch);
    memory.logits_bytes = of_batch.logits_bytes;
    arena.Take(examples, &loss);
    sums.sums_stride = PartStride(batch.width);
    num_sums = batch.tree.num_rows * sums.sums_stride;
    arena.Take(num_sums, &sums.sums);
    sizes.backward_scratch = arena.bytes();
    count = static_cast<int64_t*>(of_batch.state);
  }

  MemorySizes sizes;  // of the batch
  Memory memory;      // of a chunk
  A* loss = nullptr;  // [examples], of a chunk whose logits are made again
  RowOutput<T> sums;
  int64_t num_sums = 0;
  int64_t* count = nullptr;
};

template <typename T>
class Chunks {
 public:
  using A = Accumulator<T>;

  Chunks(const Batch<T>& batch, int64_t examples, const Memory& memory,
         void* stream)
      : batch_(batch),
        examples_(examples),
        of_(batch, examples, memory),
        launcher_(stream) {}

  void Count() const {
    Launch(CountFlatRows, 1, kBlockThreads, kBlockThreads / kWarp * sizeof(int),
           launcher_.stream, LabelsOf(batch_), of_.count);
  }

  std::string Forward(const LossOutputs<T>& outputs) const {
    return ForEach([&](int64_t begin, const LossLauncher<T>& chunk) {
      return Forward(chunk, Behind(outputs, begin));
    });
  }

  // With `outputs`, makes losses and dx too.
  std::string Backward(const LossOutputs<T>* outputs, const A* loss_grads,
                       const RowOutput<T>& out, int64_t* touched,
                       int64_t capacity) const {
    launcher_.PerThread(ClearSums<A>, of_.num_sums, of_.num_sums,
                        of_.sums.sums);
    const std::string error = ForEach([&](int64_t begin,
                                          const LossLauncher<T>& chunk) {
      const std::string wrong = Forward(
          chunk, outputs == nullptr ? LossOutputs<T>{of_.loss, nullptr, nullptr}
                                    : Behind(*outputs, begin));
      if (!wrong.empty()) return wrong;
      return RunBackward<T>(chunk, loss_grads + begin, of_.sums, nullptr, 0);
    });
    if (!error.empty()) return error;
    const int warps = kBlockThreads / kWarp;
    launcher_.PerWarp(EmitSums<T>, Larger(batch_.tree.num_rows, capacity),
                      warps, sizeof(RowTerms<A>), batch_.tree.num_rows,
                      batch_.width, of_.sums, out, of_.count, touched,
                      capacity);
    return LaunchError();
  }

 private:
  LossOutputs<T> Behind(const LossOutputs<T>& outputs, int64_t begin) const {
    const int64_t numbers = begin * batch_.width;
    return {
        outputs.loss + begin,
        outputs.dx == nullptr ? nullptr : outputs.dx + numbers,
        outputs.dx_factors == nullptr ? nullptr : outputs.dx_factors + begin};
  }

  static std::string Forward(const LossLauncher<T>& chunk,
                             const LossOutputs<T>& outputs) {
    const std::string error = chunk.Plan(outputs.loss);
    return error.empty() ? RunForward(chunk, outputs) : error;
  }

  // use(begin, launcher) for each chunk.
  template <typename Use>
  std::string ForEach(const Use& use) const {
    const int64_t label_bytes = batch_.labels_are_int64 ? 8 : 4;
    return ForEachChunk(batch_, examples_, [&](int64_t begin, Batch<T> part) {
      part.labels =
          static_cast<const char*>(batch_.labels) + begin * label_bytes;
      return use(begin, LossLauncher<T>(part, of_.memory, launcher_.stream));
    });
  }

  const Batch<T>& batch_;
  const int64_t examples_;
  const ChunkMemory<T> of_;
  const Launcher launcher_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_CHUNKS_H_
