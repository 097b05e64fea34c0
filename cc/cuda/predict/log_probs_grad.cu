// The gradient of log-probabilities, from the leaves up, a warp per group and
// example, which reads its rows' values twice; then dx = dz W over all rows of
// the weights, a product of tiles whose rows are cut into pieces that are added
// in order. Bytes: dz written, read and written again, then read once per 64
// columns; the weights once per 32 examples.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/predict/node_logits.h"
#include "cc/cuda/predict/places.h"
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

// Multiplies dz, of the rows of a tree of one group, by the slopes of the soft
// cap. A log-probability is a logit less the same number for all rows, which
// the logit of the first row tells; it is NaN, and the slope 0, below a root of
// minus infinity.
template <typename A>
TF_HSM_KERNEL(kBlockThreads)
MultiplyBySlopes(LogitGradArguments<A> in, SoftCap<A> cap,
                 const A* first_logits) {
  const TreeView& tree = in.tree;
  const int64_t stride = in.forward.of_nodes ? tree.num_rows : tree.num_classes;
  for (int64_t i = GlobalIndex(); i < in.size * tree.num_rows;
       i += NumBlocks() * NumThreads()) {
    const int64_t example = i / tree.num_rows;
    auto value = [&](int64_t row) {
      const int64_t at = in.forward.of_nodes ? row : ~tree.row_below[row];
      return at >= 0 && at < stride ? in.forward.values[example * stride + at]
                                    : static_cast<A>(NAN);
    };
    in.dz[i] *= cap.Slope(first_logits[example] +
                          (value(i % tree.num_rows) - value(0)));
  }
}

// A block makes kExamples x kColumns numbers of dx at a time, from kRows rows
// at a time.
constexpr int kExamples = 32;
constexpr int kColumns = 64;
constexpr int kRows = 16;
constexpr int kStride = kExamples + 1;  // in shared memory, of dz

template <typename T>
struct ProductArguments {
  const T* weights;
  int64_t num_rows;
  int64_t width;
  const Accumulator<T>* dz;
  int64_t size;
  int64_t pieces;
  int64_t piece_rows;
  Accumulator<T>* out;  // [pieces, size, width]
};

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
MultiplyRows(ProductArguments<T> in) {
  using A = Accumulator<T>;
  A* z = reinterpret_cast<A*>(SharedMemory());
  A* w = z + kRows * kStride;
  const int64_t column_tiles = CeilDivide(in.width, kColumns);
  const int64_t tiles = CeilDivide(in.size, kExamples) * column_tiles;
  const int own_example = ThreadIndex() / 16;
  const int own_column = ThreadIndex() % 16;
  for (int64_t i = BlockIndex(); i < tiles * in.pieces; i += NumBlocks()) {
    const int64_t piece = i / tiles;
    const int64_t example = i % tiles / column_tiles * kExamples;
    const int64_t column = i % tiles % column_tiles * kColumns;
    const int64_t end = Smaller((piece + 1) * in.piece_rows, in.num_rows);
    A sums[2][4] = {};
    for (int64_t row = piece * in.piece_rows; row < end; row += kRows) {
      for (int j = ThreadIndex(); j < kRows * kExamples; j += kBlockThreads) {
        const int64_t e = example + j / kRows, r = row + j % kRows;
        z[j % kRows * kStride + j / kRows] =
            e < in.size && r < end ? in.dz[e * in.num_rows + r] : A(0);
      }
      for (int j = ThreadIndex(); j < kRows * kColumns; j += kBlockThreads) {
        const int64_t r = row + j / kColumns, d = column + j % kColumns;
        w[j] = r < end && d < in.width
                   ? static_cast<A>(Widen(in.weights[r * in.width + d]))
                   : A(0);
      }
      SyncBlock();
      for (int r = 0; r < kRows; ++r) {
        const A a = z[r * kStride + own_example];
        const A b = z[r * kStride + own_example + kExamples / 2];
        TF_HSM_UNROLL
        for (int c = 0; c < 4; ++c) {
          const A weight = w[r * kColumns + own_column + 16 * c];
          sums[0][c] += a * weight;
          sums[1][c] += b * weight;
        }
      }
      SyncBlock();
    }
    TF_HSM_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t e = example + own_example + half * (kExamples / 2);
      if (e >= in.size) continue;
      A* out = in.out + (piece * in.size + e) * in.width;
      TF_HSM_UNROLL
      for (int c = 0; c < 4; ++c) {
        const int64_t d = column + own_column + 16 * c;
        if (d < in.width) out[d] = sums[half][c];
      }
    }
  }
}

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
AddPieces(const A* parts, int64_t pieces, int64_t count, A* out) {
  for (int64_t i = GlobalIndex(); i < count; i += NumBlocks() * NumThreads()) {
    A sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      sum += parts[piece * count + i];
    }
    out[i] = sum;
  }
}

// Into how many pieces the rows are cut, so that all processors have work.
template <typename T>
int64_t PiecesOf(const Batch<T>& batch, const DeviceLimits& device) {
  constexpr int64_t kMinRows = 512;
  const int64_t tiles = Larger<int64_t>(
      CeilDivide(batch.size, kExamples) * CeilDivide(batch.width, kColumns), 1);
  return Smaller(CeilDivide(4 * int64_t{device.num_processors}, tiles),
                 CeilDivide(batch.tree.num_weight_rows(), kMinRows));
}

// dz [size, weight rows]; dx [size, width]. With more than one piece, `parts`
// is memory for [pieces, size, width].
template <typename T>
void MultiplyByRows(const Launcher& launcher, const Batch<T>& batch,
                    const Accumulator<T>* dz, int64_t pieces,
                    Accumulator<T>* parts, Accumulator<T>* dx) {
  using A = Accumulator<T>;
  const int64_t rows = batch.tree.num_weight_rows();
  const int64_t piece_rows = RoundUp(CeilDivide(rows, pieces), kRows);
  const ProductArguments<T> in = {
      batch.weights, rows,   batch.width, dz,
      batch.size,    pieces, piece_rows,  pieces > 1 ? parts : dx};
  const int64_t tiles =
      CeilDivide(batch.size, kExamples) * CeilDivide(batch.width, kColumns);
  Launch(MultiplyRows<T>, launcher.Grid(tiles * pieces), kBlockThreads,
         (kRows * kStride + kRows * kColumns) * sizeof(A), launcher.stream, in);
  if (pieces > 1) {
    const int64_t count = batch.size * batch.width;
    launcher.PerThread(AddPieces<A>, count, parts, pieces, count, dx);
  }
}

template <typename A>
struct GradMemory {
  A* sums;
  A* parts;         // of dx
  A* x;             // for the logits of the first row, of a soft cap
  A* first_logits;  // [size]
};

template <typename T>
int64_t LayOutGrad(const Batch<T>& batch, int64_t pieces, void* scratch,
                   GradMemory<Accumulator<T>>* memory) {
  const int64_t inputs = batch.size * batch.width;
  const bool has_cap = batch.logit_soft_cap > 0;
  Arena arena(scratch);
  arena.Take(batch.size * batch.tree.num_groups, &memory->sums);
  arena.Take(pieces > 1 ? pieces * inputs : 0, &memory->parts);
  arena.Take(has_cap ? inputs : 0, &memory->x);
  arena.Take(has_cap ? batch.size : 0, &memory->first_logits);
  return arena.bytes();
}

// The logits of the tree's first row, as the forward made them.
template <typename T>
void MakeFirstLogits(const Launcher& launcher, const Batch<T>& batch,
                     const GradMemory<Accumulator<T>>& memory) {
  PackOperands(launcher, batch, memory.x);
  MakeNodeLogits<T>(launcher, batch,
                    {batch.tree,
                     batch.weights,
                     batch.biases,
                     batch.width,
                     memory.x,
                     batch.size,
                     {0, 1, 0, 1},
                     {},
                     nullptr,
                     nullptr,
                     memory.first_logits,
                     1});
}

}  // namespace

template <typename T>
int64_t LogProbsGradBytes(const Batch<T>& batch) {
  GradMemory<Accumulator<T>> unused;
  return LayOutGrad(batch, PiecesOf(batch, CurrentDevice()), nullptr, &unused);
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
  if (batch.has_sigmoids) return "has_sigmoids: there is no such gradient";
  const Launcher launcher(stream);
  const int64_t pieces = PiecesOf(batch, launcher.device);
  GradMemory<A> memory;
  LayOutGrad(batch, pieces, scratch, &memory);
  const TreeView& tree = batch.tree;
  LogitGradArguments<A> in = {tree,  levels.places, 0,
                              0,     batch.size,    forward,
                              grads, memory.sums,   out.dz};
  const std::vector<int64_t>& starts = levels.starts;
  for (size_t level = starts.size() - 1; level-- > 0;) {
    in.first_place = starts[level];
    in.num_groups = starts[level + 1] - starts[level];
    launcher.PerWarp(LogitGrads<A>, in.num_groups * batch.size,
                     kBlockThreads / kWarp, 0, in);
  }
  if (batch.logit_soft_cap > 0) {
    MakeFirstLogits(launcher, batch, memory);
    launcher.PerThread(MultiplyBySlopes<A>, batch.size * tree.num_rows, in,
                       SoftCap<A>(batch.logit_soft_cap), memory.first_logits);
  }
  if (out.roots != nullptr) {
    launcher.PerThread(TakeRoots<A>, batch.size * tree.num_roots, tree,
                       levels.places, batch.size, memory.sums, out.roots);
  }
  MultiplyByRows(launcher, batch, out.dz, pieces, memory.parts, out.dx);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(LogProbsGradBytes, T) TF_HSM_MAKE(LogProbsGrad, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
