// What smoothed labels need of large groups.
//
// The target (buffers.h) is linear in u, so one row per node stands for
// all rows:
//
//   forward:   mean row  W' = sum over rows k of  u_k w_k
//              and  b' = sum of  u_k b_k;
//              the mean logit is  W' x + b'; dx has  - s W'  more (path.h)
//   backward:  X' = sum over examples of  g x;   G' = sum of g
//              dW_k has  - s u_k X'  more, db_k  - s u_k G'  (SubtractShares)
//
// so that the kernels at large groups run as without smoothing. Warps share out
// 32 columns of pieces of a node's rows or examples, and then of nodes, whose
// pieces they add in order: as many pieces as a node has items of the forward.
//
// Bytes: forward, the rows of touched groups once; backward, x once per level.

#ifndef TF_HSM_CC_CUDA_TILE_NODE_SUMS_H_
#define TF_HSM_CC_CUDA_TILE_NODE_SUMS_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/row_span.h"

namespace tf_hsm::gpu {

template <typename T>
struct NodeSumArguments {
  const T* weights;
  const T* biases;
  int64_t width;
  const Accumulator<T>* loss_grads;  // null: the forward
  Buffers<T> buffers;
};

// Pieces of the columns of a row and of its bias.
TF_HSM_HOST_DEVICE int64_t ColumnPieces(int64_t width) {
  return CeilDivide(width + 1, kWarp);
}

// Where the sums of a node begin, and in how many pieces they are made.
struct NodePieces {
  int64_t first;
  int64_t count;
};

template <typename T>
TF_HSM_DEVICE NodePieces PiecesOf(const Buffers<T>& from, int64_t n) {
  const NodeWork* work = from.plan.work;
  const int64_t first = n == 0 ? 0 : work[n - 1].forward_items;
  // Only a tree whose arrays contradict each other has more.
  const int64_t end =
      Smaller(work[n].forward_items, from.plan.counts->work.forward_items);
  return {first, end - first};
}

// The sums [width + 1] of a large node, the bias' last; null if labels are not
// smoothed.
template <typename T>
TF_HSM_DEVICE const Accumulator<T>* NodeSums(const Buffers<T>& from, int64_t n,
                                             int64_t width) {
  if (from.smoothing.amount == 0) return nullptr;
  const NodePieces pieces = PiecesOf(from, n);
  if (pieces.count <= 0) return nullptr;
  return from.node_sums + pieces.first * PartStride(width);
}

// One column of [begin, end) of a node's rows.
template <typename T>
TF_HSM_DEVICE Accumulator<T> SumRows(const NodeSumArguments<T>& in,
                                     const DeviceNode& node, int64_t column,
                                     int64_t begin, int64_t end) {
  using A = Accumulator<T>;
  const bool is_bias = column == in.width;
  if (is_bias && in.biases == nullptr) return 0;
  const T* from = is_bias ? in.biases : in.weights + column;
  const int64_t stride = is_bias ? 1 : in.width;
  A sum = 0;
  TF_HSM_UNROLL_4
  for (int64_t row = node.first_row + begin; row < node.first_row + end;
       ++row) {
    const A share = in.buffers.smoothing.Share(row, node.fanout);
    const A value = Widen(from[row * stride]);
    // A row without a share may be infinite.
    sum += share > 0 ? share * value : A(0);
  }
  return sum;
}

// One column of [begin, end) of a node's examples.
template <typename T>
TF_HSM_DEVICE Accumulator<T> SumInputs(const NodeSumArguments<T>& in,
                                       const DeviceNode& node, int64_t column,
                                       int64_t begin, int64_t end) {
  using A = Accumulator<T>;
  A sum = 0;
  TF_HSM_UNROLL_4
  for (int64_t at = node.begin + begin; at < node.begin + end; ++at) {
    const A g = in.loss_grads[in.buffers.plan.order[at]];
    sum += g * (column < in.width ? in.buffers.x[at * in.width + column] : 1);
  }
  return sum;
}

// use(node, pieces, piece, column, sum) for each column of each piece, the
// column by the lane's number; `sum` is its place.
template <typename T, typename Use>
TF_HSM_DEVICE void ForEachNodePiece(const NodeSumArguments<T>& in,
                                    const Use& use) {
  const DevicePlan& plan = in.buffers.plan;
  const int warps = NumThreads() / kWarp;
  const int64_t across = ColumnPieces(in.width);
  const int64_t count = plan.counts->work.forward_items * across;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < count;
       i += NumBlocks() * warps) {
    const int64_t item = i / across;
    const int64_t column = i % across * kWarp + Lane();
    if (column > in.width) continue;
    const int64_t n = FindSum(plan.work, &NodeWork::forward_items,
                              plan.counts->num_nodes, item);
    const NodePieces pieces = PiecesOf(in.buffers, n);
    use(plan.nodes[n], pieces, item - pieces.first, column,
        in.buffers.node_sums + item * PartStride(in.width) + column);
  }
}

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
SumNodePieces(NodeSumArguments<T> in) {
  ForEachNodePiece(in, [&](const DeviceNode& node, const NodePieces& pieces,
                           int64_t piece, int64_t column, auto* sum) {
    const bool forward = in.loss_grads == nullptr;
    const int64_t all = forward ? node.fanout : node.population();
    const int64_t begin = all * piece / pieces.count;
    const int64_t end = all * (piece + 1) / pieces.count;
    *sum = forward ? SumRows(in, node, column, begin, end)
                   : SumInputs(in, node, column, begin, end);
  });
}

// Adds the pieces of each node to its first.
template <typename T>
TF_HSM_KERNEL(kBlockThreads)
MergeNodePieces(NodeSumArguments<T> in) {
  ForEachNodePiece(in, [&](const DeviceNode&, const NodePieces& pieces,
                           int64_t piece, int64_t, auto* sum) {
    if (piece > 0) return;
    Accumulator<T> all = *sum;
    TF_HSM_UNROLL_4
    for (int64_t p = 1; p < pieces.count; ++p) {
      all += sum[p * PartStride(in.width)];
    }
    *sum = all;
  });
}

// Not inlined: ptxas then spills less of the products before it.
template <int threads, typename A>
TF_HSM_APART void SubtractProducts(Smoothing<A> smoothing, int64_t fanout,
                                   const A* sums, int64_t width,
                                   RowSpan<A> rows) {
  for (int k = Team<threads>::Rank() / kWarp; k < rows.count;
       k += threads / kWarp) {
    const A part = smoothing.amount * smoothing.Share(rows.first + k, fanout);
    A* row = rows.dw + k * rows.stride;
    for (int64_t d = Lane(); d < width; d += kWarp) row[d] -= part * sums[d];
    if (Lane() == 0) rows.db[k] -= part * sums[width];
  }
}

// Makes gradients of rows of a large node, whose labels may be smoothed, whole.
// By `threads` threads that work together: a warp or a block.
template <int threads, typename T>
TF_HSM_DEVICE void SubtractShares(const Buffers<T>& from, int64_t n,
                                  int64_t width,
                                  const RowSpan<Accumulator<T>>& rows) {
  const Accumulator<T>* sums = NodeSums(from, n, width);
  if (sums == nullptr) return;
  SubtractProducts<threads>(from.smoothing, from.plan.nodes[n].fanout, sums,
                            width, rows);
  Team<threads>::Sync();
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_NODE_SUMS_H_
