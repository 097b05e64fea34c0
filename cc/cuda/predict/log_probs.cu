// The log-probabilities of all nodes, or classes, of a batch, and of the
// groups.
//
// One product makes all logits. Then, from the roots down, a warp per group and
// example subtracts the log of the sum of exponentials and adds what its parent
// row, or its root, has. Bytes: the weights, the [examples, rows] values
// written, and read and written once more.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/predict/log_sum.h"
#include "cc/cuda/predict/node_logits.h"
#include "cc/cuda/predict/places.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {
namespace {

// The `groups` groups of a level, the first of them at `first_place`. One that
// the tree's arrays break keeps its logits.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
SubtractLogSums(TreeView tree, Places places, const A* root_log_probs,
                bool has_sigmoids, int64_t first_place, int64_t groups,
                int64_t size, A* values) {
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < groups * size;
       i += NumBlocks() * warps) {
    const int64_t place = first_place + i % groups;
    const int64_t group = GroupAt(places, place);
    A* own = values + i / groups * tree.num_rows;
    const int64_t first = tree.group_offsets[group];
    const int64_t last = tree.group_offsets[group + 1];
    const int64_t parent = tree.group_parents[group];
    const bool has_parent = parent >= 0 && parent < tree.num_rows;
    const bool is_root = place < tree.num_roots;
    if (first < 0 || last > tree.num_rows || (!is_root && !has_parent)) {
      continue;
    }
    LogSum<A> sum = {0, 0};
    if (!has_sigmoids) {
      sum = FindLogSum<kWarp, A>(own + first, last - first, nullptr);
    }
    const A above = is_root ? StartOf(tree, root_log_probs, i / groups, place)
                            : own[parent];
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      own[r] = above + (own[r] - sum.shift - sum.log_sum);
    }
  }
}

// out [size, count] of nodes [size, num_rows]: those at `rows` [count].
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
TakeRows(const int64_t* rows, int64_t count, int64_t num_rows, int64_t size,
         const A* nodes, A* out) {
  for (int64_t i = GlobalIndex(); i < size * count;
       i += NumBlocks() * NumThreads()) {
    const int64_t row = rows[i % count];
    const bool right = row >= 0 && row < num_rows;
    out[i] = right ? nodes[i / count * num_rows + row] : static_cast<A>(NAN);
  }
}

// out [size, num_groups]: log p of the groups' parents, or of the roots.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
TakeParents(TreeView tree, Places places, const A* root_log_probs, int64_t size,
            const A* nodes, A* out) {
  const int64_t count = tree.num_groups;
  for (int64_t i = GlobalIndex(); i < size * count;
       i += NumBlocks() * NumThreads()) {
    const int64_t parent = tree.group_parents[i % count];
    const int64_t place = PlaceOf(places, i % count);
    const bool right = parent >= 0 && parent < tree.num_rows;
    out[i] = place < tree.num_roots
                 ? StartOf(tree, root_log_probs, i / count, place)
             : right ? nodes[i / count * tree.num_rows + parent]
                     : static_cast<A>(NAN);
  }
}

// x: memory for the inputs of as many examples as are taken at a time; nodes:
// for the log-probabilities of all their nodes, if these are not the output.
template <typename T>
void LayOutLogProbs(const Batch<T>& batch, bool of_nodes, int64_t chunk,
                    Arena* arena, Accumulator<T>** x, Accumulator<T>** nodes) {
  const int64_t size = of_nodes ? batch.size : Smaller(chunk, batch.size);
  arena->Take(size * batch.width, x);
  arena->Take(of_nodes ? 0 : size * batch.tree.num_rows, nodes);
}

// Fills nodes [size, rows].
template <typename T>
void MakeNodes(const Launcher& launcher, const Batch<T>& batch,
               const Levels& levels, Accumulator<T>* x, Accumulator<T>* nodes) {
  const TreeView& tree = batch.tree;
  PackOperands(launcher, batch, x);
  MakeNodeLogits<T>(launcher, batch,
                    {tree,
                     batch.weights,
                     batch.biases,
                     batch.width,
                     x,
                     batch.size,
                     {0, tree.num_rows, 0, tree.num_groups},
                     {},
                     nullptr,
                     nullptr,
                     nodes,
                     tree.num_rows});
  const std::vector<int64_t>& starts = levels.starts;
  for (size_t level = 0; level + 1 < starts.size(); ++level) {
    const int64_t groups = starts[level + 1] - starts[level];
    launcher.PerWarp(SubtractLogSums<Accumulator<T>>, groups * batch.size,
                     kBlockThreads / kWarp, 0, tree, levels.places,
                     batch.root_log_probs, batch.has_sigmoids, starts[level],
                     groups, batch.size, nodes);
  }
}

}  // namespace

template <typename T>
int64_t LogProbsBytes(const Batch<T>& batch, bool of_nodes, int64_t chunk) {
  Arena arena(nullptr);
  Accumulator<T>*x, *nodes;
  LayOutLogProbs(batch, of_nodes, chunk, &arena, &x, &nodes);
  return arena.bytes();
}

template <typename T>
std::string LogProbs(const Batch<T>& batch, const Levels& levels, int64_t chunk,
                     const AllLogProbs<Accumulator<T>>& out, void* scratch,
                     void* stream) {
  using A = Accumulator<T>;
  const std::string error = CheckBatch(batch);
  if (!error.empty()) return error;
  if (chunk < 1) return "chunk is " + std::to_string(chunk) + ", but below 1";
  const Launcher launcher(stream);
  const TreeView& tree = batch.tree;
  Arena arena(scratch);
  A *x, *nodes;
  LayOutLogProbs(batch, out.of_nodes, chunk, &arena, &x, &nodes);
  if (out.of_nodes) {
    chunk = Larger<int64_t>(batch.size, 1);
    nodes = out.values;
  }
  return ForEachChunk(batch, chunk, [&](int64_t begin, const Batch<T>& part) {
    MakeNodes(launcher, part, levels, x, nodes);
    if (!out.of_nodes) {
      launcher.PerThread(TakeRows<A>, part.size * tree.num_classes,
                         tree.class_rows, tree.num_classes, tree.num_rows,
                         part.size, nodes,
                         out.values + begin * tree.num_classes);
    }
    launcher.PerThread(TakeParents<A>, part.size * tree.num_groups, tree,
                       levels.places, part.root_log_probs, part.size, nodes,
                       out.groups + begin * tree.num_groups);
    return LaunchError();
  });
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(LogProbsBytes, T) TF_HSM_MAKE(LogProbs, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
