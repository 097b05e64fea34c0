// The gradient of log-probabilities, from the leaves up, a warp per group and
// example, which reads its rows' values twice; then dx = dz W (row_product.h).
// Bytes: dz written, read and written again.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/predict/places.h"
#include "cc/cuda/predict/row_product.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {
namespace {

// out [size, num_roots] of sums [size, num_groups].
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
TakeRoots(TreeView tree, Places places, int64_t size, const A* sums, A* out) {
  const int64_t count = tree.num_roots;
  for (int64_t i = GlobalIndex(); i < size * count;
       i += NumBlocks() * NumThreads()) {
    out[i] = sums[i / count * tree.num_groups + GroupAt(places, i % count)];
  }
}

template <typename A>
struct LogitGradArguments {
  TreeView tree;
  Places places;
  int64_t first_place;  // of a level
  int64_t num_groups;   // of the same
  int64_t size;
  AllLogProbs<const A> forward;
  const A* grads;
  A* sums;  // [size, groups], of the levels below
  A* dz;    // [size, weight rows]
};

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
LogitGrads(LogitGradArguments<A> in) {
  const TreeView& tree = in.tree;
  const bool of_nodes = in.forward.of_nodes;
  const int64_t stride = of_nodes ? tree.num_rows : tree.num_classes;
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex();
       i < in.num_groups * in.size; i += NumBlocks() * warps) {
    const int64_t group =
        GroupAt(in.places, in.first_place + i % in.num_groups);
    const int64_t example = i / in.num_groups;
    const A* groups = in.forward.groups + example * tree.num_groups;
    const A* values = in.forward.values + example * stride;
    const A* grads = in.grads + example * stride;
    A* sums = in.sums + example * tree.num_groups;
    A* dz = in.dz + example * tree.num_weight_rows();
    const int64_t first = tree.group_offsets[group];
    const int64_t last = tree.group_offsets[group + 1];
    if (first < 0 || last > tree.num_rows) continue;
    // Below what has no probability at all, none of the rows has any.
    const bool is_infinite = Abs(groups[group]) == static_cast<A>(INFINITY);
    const A above = is_infinite ? A(0) : groups[group];
    A sum = 0;
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      const int64_t below = tree.row_below[r];
      A s = 0;
      if (below < tree.num_groups && ~below < tree.num_classes) {
        if (of_nodes || below < 0) s = grads[of_nodes ? r : ~below];
        if (below >= 0) s += sums[below];
      }
      if (tree.has_weights(r)) dz[tree.weight_row(r)] = s;
      sum += s;
    }
    sum = WarpSum(sum);
    if (Lane() == 0) sums[group] = sum;
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      const int64_t below = tree.row_below[r];
      if (!tree.has_weights(r) || below >= tree.num_groups ||
          ~below >= tree.num_classes) {
        continue;
      }
      const A value =
          below >= 0 ? groups[below] : values[of_nodes ? r : ~below];
      dz[tree.weight_row(r)] -= sum * Exp(value - above);
    }
  }
}

template <typename T>
void LayOutGrad(const Batch<T>& batch, int64_t pieces, Arena* arena,
                Accumulator<T>** sums, Accumulator<T>** parts) {
  arena->Take(batch.size * batch.tree.num_groups, sums);
  arena->Take(pieces > 1 ? pieces * batch.size * batch.width : 0, parts);
}

}  // namespace

template <typename T>
int64_t LogProbsGradBytes(const Batch<T>& batch) {
  Arena arena(nullptr);
  Accumulator<T>*sums, *parts;
  LayOutGrad(batch, PiecesOf(batch, CurrentDevice()), &arena, &sums, &parts);
  return arena.bytes();
}

template <typename T>
std::string LogProbsGrad(const Batch<T>& batch, const Levels& levels,
                         const AllLogProbs<const Accumulator<T>>& forward,
                         const Accumulator<T>* grads,
                         const LogProbsGrads<Accumulator<T>>& out,
                         void* scratch, void* stream) {
  using A = Accumulator<T>;
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const Launcher launcher(stream);
  const int64_t pieces = PiecesOf(batch, launcher.device);
  Arena arena(scratch);
  A *sums, *parts;
  LayOutGrad(batch, pieces, &arena, &sums, &parts);
  const TreeView& tree = batch.tree;
  const std::vector<int64_t>& starts = levels.starts;
  for (size_t level = starts.size() - 1; level-- > 0;) {
    const int64_t groups = starts[level + 1] - starts[level];
    const LogitGradArguments<A> in = {tree,   levels.places, starts[level],
                                      groups, batch.size,    forward,
                                      grads,  sums,          out.dz};
    launcher.PerWarp(LogitGrads<A>, groups * batch.size, kBlockThreads / kWarp,
                     0, in);
  }
  if (out.roots != nullptr) {
    launcher.PerThread(TakeRoots<A>, batch.size * tree.num_roots, tree,
                       levels.places, batch.size, sums, out.roots);
  }
  MultiplyByRows(launcher, batch, out.dz, pieces, parts, out.dx);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(LogProbsGradBytes, T) TF_HSM_MAKE(LogProbsGrad, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
