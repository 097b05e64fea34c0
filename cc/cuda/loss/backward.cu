// The backward and the update of a batch that is not taken in chunks: see
// run.h; and the kernels of rows, which follow the kernels of large groups.
//
// dW and db of small groups, and the sums of partial ones: a warp per item.
//
// Small groups have kept gradients of logits, so that dW = dz^T x needs no
// weights: a warp takes some of a node's examples and all of its rows that have
// weights, 128 columns at a time, reading x once per pass. The rows are then in
// shared memory, written out or applied as in large_backward.h. MergeRows adds
// the parts of rows that several items shared, in the order of the examples.

#include <cstdint>

#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/hot/hot.h"
#include "cc/cuda/loss/run.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/node_sums.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm::gpu {
namespace {

constexpr int kRowThreads = 256;

template <typename T>
struct RowArguments {
  int64_t width;
  int64_t small_fanout;
  int64_t small_rows;  // of small groups, the most that have weights
  const Accumulator<T>* loss_grads;
  Buffers<T> buffers;
  RowOutput<T> out;
};

// Numbers from one row of gradients to the next: of whole 16 bytes.
TF_HSM_HOST_DEVICE int64_t RowStride(int64_t width) {
  return RoundUp(width, 4);
}

// Shared memory of a warp: its rows, and a few numbers for each.
template <typename T>
TF_HSM_HOST_DEVICE int64_t SmallRowsBytes(const RowArguments<T>& in) {
  using A = Accumulator<T>;
  return in.small_rows * RowStride(in.width) * sizeof(A) +
         kMaxSmallFanout * (sizeof(RowTerms<A>) + sizeof(A));
}

// The rows of one item into `rows`; returns in lane k db of row k.
template <typename T>
TF_HSM_DEVICE Accumulator<T> SmallGradients(const RowArguments<T>& in,
                                            const DeviceNode& node,
                                            const Item& item,
                                            Accumulator<T>* rows) {
  using A = Accumulator<T>;
  constexpr int kColumns = 4;  // of a lane
  const DevicePlan& plan = in.buffers.plan;
  const int count = static_cast<int>(node.num_weight_rows());
  const int64_t begin = node.begin + item.example;
  A db = 0;
  for (int64_t base = Lane(); base - Lane() < in.width;
       base += kColumns * kWarp) {
    A sums[kMaxSmallFanout][kColumns] = {};
    for (int64_t at = begin; at < begin + item.num_examples; ++at) {
      const int64_t pass = plan.Pass(node.level, at);
      const A g = in.loss_grads[plan.order[at]];
      const A* kept = in.buffers.small_dz + pass * in.small_fanout;
      A x[kColumns];
      TF_HSM_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int64_t d = base + j * kWarp;
        x[j] = d < in.width ? in.buffers.x[at * in.width + d] : A(0);
      }
      TF_HSM_UNROLL
      for (int k = 0; k < kMaxSmallFanout; ++k) {
        if (k >= count) break;
        const A dz = g * kept[k];
        if (base < kWarp && k == Lane()) db += dz;
        TF_HSM_UNROLL
        for (int j = 0; j < kColumns; ++j) sums[k][j] += dz * x[j];
      }
    }
    TF_HSM_UNROLL
    for (int k = 0; k < kMaxSmallFanout; ++k) {
      if (k >= count) break;
      TF_HSM_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int64_t d = base + j * kWarp;
        if (d < in.width) rows[k * RowStride(in.width) + d] = sums[k][j];
      }
    }
  }
  return db;
}

template <typename T>
TF_HSM_KERNEL(kRowThreads)
SmallRows(RowArguments<T> in) {
  using A = Accumulator<T>;
  const int warps = NumThreads() / kWarp;
  char* shared = SharedMemory() + WarpIndex() * SmallRowsBytes(in);
  auto* terms = reinterpret_cast<RowTerms<A>*>(shared);
  A* biases = reinterpret_cast<A*>(terms + kMaxSmallFanout);
  A* rows = biases + kMaxSmallFanout;
  const DevicePlan& plan = in.buffers.plan;
  const int64_t count = plan.counts->work.small_items;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < count;
       i += NumBlocks() * warps) {
    const Item item = in.buffers.small_items[i];
    if (item.num_examples == 0) continue;
    const DeviceNode node = plan.nodes[item.node];
    const A db = SmallGradients(in, node, item, rows);
    if (Lane() < kMaxSmallFanout) biases[Lane()] = db;
    SyncWarp();
    const int64_t before = plan.RowsBefore(item.node);
    const RowSpan<A> span = {node.first_weight_row(),
                             before,
                             static_cast<int>(node.num_weight_rows()),
                             rows,
                             RowStride(in.width),
                             biases};
    if (item.slot < 0) {
      EmitRows<kWarp>(in.out, span, in.width, terms);
    } else {
      const int64_t stride = PartStride(in.width);
      StoreParts<kWarp>(span, in.width, stride,
                        in.buffers.merge + item.slot * stride);
    }
    SyncWarp();
  }
}

// Adds the parts of a row and of its bias; the sum replaces the first one.
template <typename A>
TF_HSM_DEVICE void AddParts(int64_t pieces, int64_t stride, int64_t width,
                            A* parts) {
  constexpr int kColumns = 8;  // of a lane, on their way together
  for (int64_t base = Lane(); base - Lane() <= width;
       base += kColumns * kWarp) {
    A sums[kColumns] = {};
    for (int64_t p = 0; p < pieces; ++p) {
      TF_HSM_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int64_t d = base + j * kWarp;
        if (d <= width) sums[j] += parts[p * stride + d];
      }
    }
    TF_HSM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const int64_t d = base + j * kWarp;
      if (d <= width) parts[d] = sums[j];
    }
  }
}

template <typename T>
TF_HSM_KERNEL(kRowThreads)
MergeRows(RowArguments<T> in) {
  using A = Accumulator<T>;
  auto* terms = reinterpret_cast<RowTerms<A>*>(SharedMemory()) + WarpIndex();
  const int warps = NumThreads() / kWarp;
  const DevicePlan& plan = in.buffers.plan;
  const int64_t count = plan.counts->work.merge_rows;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < count;
       i += NumBlocks() * warps) {
    const int64_t n =
        FindSum(plan.work, &NodeWork::merge_rows, plan.counts->num_nodes, i);
    const DeviceNode node = plan.nodes[n];
    const int64_t k = i - (n == 0 ? 0 : plan.work[n - 1].merge_rows);
    const int64_t pieces = plan.counts->cuts.ExamplePieces(node);
    const int64_t slot = (n == 0 ? 0 : plan.work[n - 1].merge_slots) + k;
    const int64_t stride = node.num_weight_rows();
    if (slot + (pieces - 1) * stride >= in.buffers.bounds.merge_slots) {
      continue;
    }
    A* parts = in.buffers.merge + slot * PartStride(in.width);
    AddParts(pieces, stride * PartStride(in.width), in.width, parts);
    SyncWarp();
    const int64_t before = plan.RowsBefore(n);
    const RowSpan<A> row = {
        node.first_weight_row() + k, before + k, 1, parts, 0, parts + in.width};
    if (node.large) SubtractShares<kWarp>(in.buffers, n, in.width, row);
    EmitRows<kWarp>(in.out, row, in.width, terms);
    SyncWarp();
  }
}

}  // namespace

template <typename T>
std::string RunBackward(const LossLauncher<T>& launcher,
                        const Accumulator<T>* loss_grads,
                        const RowOutput<T>& out, int64_t* touched,
                        int64_t capacity) {
  const Batch<T>& batch = launcher.batch;
  const Buffers<T>& buffers = launcher.buffers;
  const LaunchShape& shape = launcher.shape;
  const Bounds& bounds = buffers.bounds;
  const RowArguments<T> rows = {
      batch.width,
      batch.shape.small_fanout,
      batch.tree.weight_rows_of(batch.shape.small_fanout),
      loss_grads,
      buffers,
      out};
  // Before the first launch: a step is made as a whole or not at all.
  const int64_t bytes = SmallRowsBytes(rows);
  const int warps = launcher.Warps(bytes);
  if (bounds.small_items > 0 && warps == 0) return TooWide(batch.width);
  launcher.PrepareBackward(touched, capacity);
  if (bounds.backward_items > 0) {
    launcher.PerThread(MakePassTerms<Accumulator<T>>, bounds.passes,
                       buffers.plan, bounds.passes, buffers.normalizers,
                       loss_grads, batch.label_smoothing, buffers.pass_terms);
    launcher.AddNodeSums(loss_grads);
    launcher.AtLargeGroups([&](auto name, const LargeArguments<T>& in) {
      using Product = typename decltype(name)::Product;
      Launch(BackwardLarge<Product>, shape.blocks, kTileThreads,
             BackwardSharedBytes<Product>(in.slabs.columns), launcher.stream,
             in, out);
    });
    if constexpr (kSumsInFloat<T>) {
      if (buffers.bounds.hot_items > 0) {
        LaunchHotBackward(batch, buffers, shape, out, launcher.stream);
      }
    }
  }
  // What failed may have left parts that are never written.
  const std::string error = LaunchError();
  if (!error.empty()) return error;
  if (bounds.small_items > 0) {
    launcher.PerWarp(SmallRows<T>, bounds.small_items, warps, bytes, rows);
  }
  if (bounds.merge_slots > 0) {
    Launch(MergeRows<T>, launcher.Grid(bounds.merge_slots), kRowThreads,
           kRowThreads / kWarp * sizeof(RowTerms<Accumulator<T>>),
           launcher.stream, rows);
  }
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(RunBackward, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
