// The log-probability of a class is that of its root less its loss: the forward
// runs on a batch with each input as often as it has classes. Where rows have
// sigmoids, those on the path are all that it needs, and a warp climbs it.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/plan/paths.h"
#include "cc/cuda/predict/places.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {
namespace {

TF_HSM_KERNEL(kBlockThreads)
RepeatExamples(int64_t size, int64_t count, int32_t* order) {
  for (int64_t i = GlobalIndex(); i < size; i += NumBlocks() * NumThreads()) {
    order[i] = static_cast<int32_t>(i / count);
  }
}

// Losses to log-probabilities: values [size, count].
template <typename T>
struct EndArguments {
  TreeView tree;
  Places places;
  const Accumulator<T>* root_log_probs;
  const void* labels;
  bool labels_are_int64;
  int64_t size;
  int64_t count;
  Accumulator<T>* values;
};

// The number of the tree that a row is in: the last one that does not begin
// behind it.
template <typename T>
TF_HSM_DEVICE int64_t RootOf(const EndArguments<T>& in, int64_t row) {
  int64_t low = 0, high = in.tree.num_roots;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (in.tree.group_offsets[GroupAt(in.places, middle)] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
EndClasses(EndArguments<T> in) {
  using A = Accumulator<T>;
  for (int64_t i = GlobalIndex(); i < in.size * in.count;
       i += NumBlocks() * NumThreads()) {
    const A below = 0 - in.values[i];  // not minus zero
    in.values[i] = below;
    if (in.root_log_probs == nullptr) continue;
    const int64_t id = in.labels_are_int64
                           ? static_cast<const int64_t*>(in.labels)[i]
                           : static_cast<const int32_t*>(in.labels)[i];
    if (id == -1) in.values[i] = -static_cast<A>(INFINITY);
    if (id < 0 || id >= in.tree.num_classes) continue;
    const int64_t root = RootOf(in, in.tree.class_rows[id]);
    in.values[i] =
        StartOf(in.tree, in.root_log_probs, i / in.count, root) + below;
  }
}

// The loss of a class whose path begins at the leaf `row`, by a warp; x: the
// input.
template <typename T>
TF_HSM_DEVICE Accumulator<T> ClimbPath(const Batch<T>& batch,
                                       const Accumulator<T>* x, int64_t row) {
  using A = Accumulator<T>;
  A loss = 0, unused;
  for (int64_t level = 0; row >= 0; ++level) {
    const int64_t group = GroupOfRow(batch.tree, batch.shape, row);
    if (group < 0 || level == batch.shape.depth) return static_cast<A>(NAN);
    A z = 0;
    for (int64_t d = Lane(); d < batch.width; d += kWarp) {
      z += Widen(batch.weights[row * batch.width + d]) * x[d];
    }
    z = WarpSum(z);
    if (batch.biases != nullptr) z += Widen(batch.biases[row]);
    loss += Sigmoid(-z, &unused);
    row = batch.tree.group_parents[group];
  }
  return loss;
}

// losses [size, count] of batch.labels; x [size, width].
template <typename T>
TF_HSM_KERNEL(kBlockThreads)
ClimbClasses(Batch<T> batch, const Accumulator<T>* x, int64_t count,
             Accumulator<T>* losses) {
  using A = Accumulator<T>;
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < batch.size * count;
       i += NumBlocks() * warps) {
    const int64_t example = i / count;
    const int64_t id = batch.labels_are_int64
                           ? static_cast<const int64_t*>(batch.labels)[i]
                           : static_cast<const int32_t*>(batch.labels)[i];
    A loss = static_cast<A>(NAN);
    if (id >= 0 && id < batch.tree.num_classes) {
      loss = ClimbPath(batch, x + example * batch.width,
                       batch.tree.class_rows[id]);
    }
    if (Lane() == 0) losses[i] = loss;
  }
}

template <typename T>
struct ClassMemory {
  Batch<T> losses;  // a class each
  Memory memory;
  int32_t* order;     // of the inputs
  Accumulator<T>* x;  // the inputs in that order
  int64_t bytes;
};

// Lays out what the classes of `size` examples need.
template <typename T>
ClassMemory<T> LayOut(const Batch<T>& batch, int64_t count, int64_t size,
                      void* scratch) {
  ClassMemory<T> parts;
  Arena arena(scratch);
  parts.losses = batch;
  if (batch.has_sigmoids) {
    arena.Take(size * batch.width, &parts.x);
    parts.bytes = arena.bytes();
    return parts;
  }
  arena.Take(size * count, &parts.order);
  arena.Take(size * count * batch.width, &parts.x);
  parts.losses.inputs = parts.x;
  parts.losses.input_type = kElementType<Accumulator<T>>;
  parts.losses.size = size * count;
  parts.losses.num_ignored = 0;
  // Nothing is kept for a backward.
  const MemorySizes sizes = SizesOf(parts.losses, 0);
  arena.Take(sizes.state, &parts.memory.state);
  arena.Take(sizes.forward_scratch, &parts.memory.scratch);
  parts.bytes = arena.bytes();
  return parts;
}

}  // namespace

template <typename T>
int64_t ClassLogProbsBytes(const Batch<T>& batch, int64_t count,
                           int64_t chunk) {
  return LayOut(batch, count, Smaller(chunk, batch.size), nullptr).bytes;
}

template <typename T>
std::string ClassLogProbs(const Batch<T>& batch, const Levels& levels,
                          int64_t count, int64_t chunk,
                          Accumulator<T>* log_probs, void* scratch,
                          void* stream) {
  const std::string error = CheckBatch(batch);
  if (!error.empty()) return error;
  if (count < 0 || count > int64_t{1} << 30 || chunk < 1) {
    return "count is " + std::to_string(count) + " and chunk is " +
           std::to_string(chunk) + ", but must be in [0, 2^30] and at least 1";
  }
  if (count == 0) return "";
  const Launcher launcher(stream);
  const int64_t label_bytes = batch.labels_are_int64 ? 8 : 4;
  return ForEachChunk(batch, chunk, [&](int64_t begin, Batch<T> inputs) {
    ClassMemory<T> parts = LayOut(batch, count, inputs.size, scratch);
    const std::string failed = CheckBatch(parts.losses);
    if (!failed.empty()) return failed;
    EndArguments<T> end = {batch.tree,
                           levels.places,
                           inputs.root_log_probs,
                           nullptr,
                           batch.labels_are_int64,
                           inputs.size,
                           count,
                           log_probs + begin * count};
    const char* labels =
        static_cast<const char*>(batch.labels) + begin * count * label_bytes;
    end.labels = inputs.labels = parts.losses.labels = labels;
    if (batch.has_sigmoids) {
      PackInputs(launcher, inputs, nullptr, parts.x);
      launcher.PerWarp(ClimbClasses<T>, inputs.size * count,
                       kBlockThreads / kWarp, 0, inputs, parts.x, count,
                       end.values);
      launcher.PerThread(EndClasses<T>, inputs.size * count, end);
      return std::string();
    }
    inputs.size = parts.losses.size;
    launcher.PerThread(RepeatExamples, inputs.size, inputs.size, count,
                       parts.order);
    PackInputs(launcher, inputs, parts.order, parts.x);
    LossOutputs<T> outputs;
    outputs.loss = end.values;
    const std::string wrong =
        Forward(parts.losses, parts.memory, outputs, stream);
    if (!wrong.empty()) return wrong;
    launcher.PerThread(EndClasses<T>, inputs.size, end);
    return std::string();
  });
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(ClassLogProbsBytes, T) TF_HSM_MAKE(ClassLogProbs, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
