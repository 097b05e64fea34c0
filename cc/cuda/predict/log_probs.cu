// The log-probabilities of all nodes, or classes, of a batch.
//
// One product makes all logits, 32 x 32 at a time. Then, from the root down, a
// warp per group and example subtracts the log of the sum of exponentials and
// adds what its parent row has. Bytes: the weights once per 32 examples, the
// [examples, rows] values written, and read and written once more.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/inputs.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename Product>
struct LogitArguments {
  using T = typename Product::Weight;
  const T* weights;
  const T* biases;
  int64_t num_rows;
  int64_t width;
  const typename Product::Input* x;
  int64_t size;
  Slabs slabs;
  int weight_bytes;
  int input_bytes;
  typename Product::A* out;  // [size, num_rows]
};

template <typename Product>
TF_HSM_KERNEL(kTileThreads)
AllLogits(LogitArguments<Product> in) {
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  using A = typename Product::A;
  const int w_stride = TileStride<T>(in.slabs.columns);
  const int x_stride = TileStride<Input>(in.slabs.columns);
  T* w = reinterpret_cast<T*>(SharedMemory());
  Input* x = reinterpret_cast<Input*>(w + kTile * w_stride);
  const int64_t example_tiles = CeilDivide(in.size, kTile);
  const int64_t count = CeilDivide(in.num_rows, kTile) * example_tiles;
  for (int64_t i = BlockIndex(); i < count; i += NumBlocks()) {
    const int64_t row = i / example_tiles * kTile;
    const int64_t example = i % example_tiles * kTile;
    const int rows =
        static_cast<int>(Smaller<int64_t>(kTile, in.num_rows - row));
    const int examples =
        static_cast<int>(Smaller<int64_t>(kTile, in.size - example));
    Product product;
    product.ClearLogits();
    for (int slab = 0; slab < in.slabs.count; ++slab) {
      const int64_t first = int64_t{slab} * in.slabs.columns;
      const int columns = static_cast<int>(
          Smaller<int64_t>(in.slabs.columns, in.width - first));
      LoadTile(in.weights + row * in.width + first, in.width, rows, columns,
               in.weight_bytes, kTile, w_stride, w);
      LoadTile(in.x + example * in.width + first, in.width, examples, columns,
               in.input_bytes, kTile, x_stride, x);
      CommitCopies();
      WaitForCopies<0>();
      SyncBlock();
      product.MultiplyLogits(w, w_stride, x, x_stride,
                             static_cast<int>(RoundUp(columns, kColumnStep)),
                             rows, examples, kWhole);
      SyncBlock();
    }
    product.ForEachLogit([&](int r, int e, A z) {
      if (r >= rows || e >= examples) return;
      if (in.biases != nullptr) z += Widen(in.biases[row + r]);
      in.out[(example + e) * in.num_rows + row + r] = z;
    });
  }
}

// The groups [first_group, first_group + groups) of one level. One that the
// tree's arrays break keeps its logits.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
SubtractLogSums(TreeView tree, int64_t first_group, int64_t groups,
                int64_t size, A* values) {
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < groups * size;
       i += NumBlocks() * warps) {
    const int64_t group = first_group + i % groups;
    A* own = values + i / groups * tree.num_rows;
    const int64_t first = tree.group_offsets[group];
    const int64_t last = tree.group_offsets[group + 1];
    const int64_t parent = tree.group_parents[group];
    const bool has_parent = parent >= 0 && parent < tree.num_rows;
    if (first < 0 || last > tree.num_rows || (group > 0 && !has_parent)) {
      continue;
    }
    A max = -static_cast<A>(INFINITY);
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      max = Max(max, own[r]);
    }
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      max = Max(max, ShuffleXor(max, lanes));
    }
    const A shift = Shift(max);
    A sum = 0;
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      sum += Exp(own[r] - shift);
    }
    const A log_sum = Log(WarpSum(sum));
    const A above = group == 0 ? A(0) : own[parent];
    for (int64_t r = first + Lane(); r < last; r += kWarp) {
      own[r] = above + (own[r] - shift - log_sum);
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
std::string LogProbs(const Batch<T>& batch, const std::vector<int64_t>& levels,
                     bool of_nodes, Accumulator<T>* out, void* scratch,
                     void* stream) {
  using A = Accumulator<T>;
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const Launcher launcher(stream);
  Arena arena(scratch);
  A *x, *nodes;
  LayOutLogProbs(batch, of_nodes, &arena, &x, &nodes);
  if (of_nodes) nodes = out;
  const TreeView& tree = batch.tree;
  WithProduct(batch, launcher.device, [&](auto name) {
    using Product = typename decltype(name)::Product;
    // An operand is no larger than an accumulator.
    auto* inputs = reinterpret_cast<typename Product::Input*>(x);
    if constexpr (Product::kTensorCores) {
      PackInputs(launcher, batch, nullptr, nullptr, inputs);
    } else {
      PackInputs(launcher, batch, nullptr, inputs);
    }
    const Slabs slabs = SlabsOf(batch, launcher.device);
    const LogitArguments<Product> in = {batch.weights,
                                        batch.biases,
                                        tree.num_rows,
                                        batch.width,
                                        inputs,
                                        batch.size,
                                        slabs,
                                        CopyBytes(batch.weights, batch.width),
                                        CopyBytes(inputs, batch.width),
                                        nodes};
    const int64_t tiles =
        CeilDivide(in.num_rows, kTile) * CeilDivide(in.size, kTile);
    Launch(AllLogits<Product>, launcher.Grid(tiles), kTileThreads,
           TileBytes<T>(slabs.columns) +
               TileBytes<typename Product::Input>(slabs.columns),
           stream, in);
  });
  for (size_t level = 0; level + 1 < levels.size(); ++level) {
    const int64_t groups = levels[level + 1] - levels[level];
    launcher.PerWarp(SubtractLogSums<A>, groups * batch.size,
                     kBlockThreads / kWarp, 0, tree, levels[level], groups,
                     batch.size, nodes);
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
