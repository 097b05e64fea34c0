// The log-probabilities of all nodes, or classes, of a batch.
//
// One product makes all logits. Then, from the roots down, a warp per group and
// example subtracts the log of the sum of exponentials and adds what its parent
// row, or its root, has. Bytes: the weights, the [examples, rows] values
// written, and read and written once more.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/predict/log_sum.h"
#include "cc/cuda/predict/node_logits.h"
#include "cc/cuda/predict/places.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm {
namespace gpu {
namespace {

// The `groups` groups of a level, the first of them at `first_place`. One that
// the tree's arrays break keeps its logits.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
SubtractLogSums(TreeView tree, Places places, const A* root_log_probs,
                int64_t first_place, int64_t groups, int64_t size, A* values) {
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
    const auto sum = FindLogSum<kWarp, A>(own + first, last - first, nullptr);
    const A above = is_root ? StartOf(tree, root_log_probs, i / groups, place)
                            : own[parent];
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      own[r] = above + (own[r] - sum.shift - sum.log_sum);
    }
  }
}

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
TakeClasses(TreeView tree, int64_t size, const A* nodes, A* classes) {
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex();
       i < size * tree.num_classes; i += NumBlocks() * NumThreads()) {
    const int64_t row = tree.class_rows[i % tree.num_classes];
    const bool right = row >= 0 && row < tree.num_rows;
    classes[i] = right ? nodes[i / tree.num_classes * tree.num_rows + row]
                       : static_cast<A>(NAN);
  }
}

template <typename T>
void LayOutLogProbs(const Batch<T>& batch, bool of_nodes, Arena* arena,
                    Accumulator<T>** x, Accumulator<T>** nodes) {
  arena->Take(batch.size * batch.width, x);
  arena->Take(of_nodes ? 0 : batch.size * batch.tree.num_rows, nodes);
}

}  // namespace

template <typename T>
int64_t LogProbsBytes(const Batch<T>& batch, bool of_nodes) {
  Arena arena(nullptr);
  Accumulator<T>*x, *nodes;
  LayOutLogProbs(batch, of_nodes, &arena, &x, &nodes);
  return arena.bytes();
}

template <typename T>
std::string LogProbs(const Batch<T>& batch, const Levels& levels, bool of_nodes,
                     Accumulator<T>* out, void* scratch, void* stream) {
  using A = Accumulator<T>;
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const Launcher launcher(stream);
  Arena arena(scratch);
  A *x, *nodes;
  LayOutLogProbs(batch, of_nodes, &arena, &x, &nodes);
  if (of_nodes) nodes = out;
  PackOperands(launcher, batch, x);
  const TreeView& tree = batch.tree;
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
    launcher.PerWarp(SubtractLogSums<A>, groups * batch.size,
                     kBlockThreads / kWarp, 0, tree, levels.places,
                     batch.root_log_probs, starts[level], groups, batch.size,
                     nodes);
  }
  if (!of_nodes) {
    launcher.PerThread(TakeClasses<A>, batch.size * tree.num_classes, tree,
                       batch.size, nodes, out);
  }
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(LogProbsBytes, T) TF_HSM_MAKE(LogProbs, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace gpu
}  // namespace tf_hsm
