// dW and db of rows of large groups that are not hot, written out or applied in
// place.
//
//   dz = g (exp(z - m) / s - [row is on the path]);   dW = dz^T x;   db: dz
//
// for 32 rows of a group and some of the examples that pass it: what a block
// does for one item. m and 1 / s are what the forward saved. The logits were
// kept, or are made again from the rows, which an update reads anyway. x tiles
// stream, dW stays in registers until the examples are through. In place, the
// item is the only one that reads or writes its rows, and does so last. A group
// that is cut by examples leaves partial sums, which MergeRows adds up in
// order.
//
// Bytes: x once per 32 rows (from the second cache), the rows once to be read
// and once to be written. FLOPs: 2 per weight and example, 4 with new logits.

#ifndef TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_
#define TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/loss/large_forward.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/largest_grad.h"
#include "cc/cuda/tile/product.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm {
namespace gpu {

// Shared memory of a block of the backward. The tiles' is used again for the
// rows of dW.
template <typename Product>
TF_HSM_HOST_DEVICE int64_t BackwardSharedBytes(int columns) {
  return TileBytes<typename Product::Weight>(columns) +
         TileBytes<typename Product::Input>(columns) +
         (kTile * kCoefficientStride + 5 * kTile + kTileThreads) *
             sizeof(typename Product::A);
}

template <typename Product>
class LargeBackward {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  using A = typename Product::A;

  TF_HSM_DEVICE LargeBackward(const LargeArguments<T>& in,
                              const Accumulator<T>* loss_grads,
                              const RowOutput<T>& out)
      : in_(in),
        loss_grads_(loss_grads),
        out_(out),
        w_stride_(TileStride<T>(in.slabs.columns)),
        x_stride_(TileStride<Input>(in.slabs.columns)) {
    char* shared = SharedMemory();
    w_ = reinterpret_cast<T*>(shared);
    x_ = reinterpret_cast<Input*>(w_ + kTile * w_stride_);
    dz_ = reinterpret_cast<A*>(x_ + kTile * x_stride_);
    max_ = dz_ + kTile * kCoefficientStride;
    scale_ = max_ + kTile;
    grad_ = scale_ + kTile;
    target_ = reinterpret_cast<int*>(grad_ + kTile);
    db_ = grad_ + 2 * kTile;
    db_parts_ = db_ + kTile;
    if (in.slabs.count == 1) {
      dw_ = reinterpret_cast<A*>(shared);
      dw_stride_ = TileStride<A>(in.slabs.columns);
    } else {
      dw_ = in.buffers.block_rows + BlockIndex() * kTile * in.width;
      dw_stride_ = static_cast<int>(in.width);
    }
  }

  TF_HSM_DEVICE void Run(const Item& item) {
    const DeviceNode node = in_.buffers.plan.nodes[item.node];
    const int32_t* order = in_.buffers.plan.order + node.begin + item.example;
    const A most =
        CoefficientScale<Product>::value == 1
            ? A(1)
            : LargestGrad(loss_grads_, order, item.num_examples, max_);
    // An update reads the rows last.
    if (out_.updates) PrefetchRows(node, item);
    A db = 0;  // of row Lane(), by every eighth example
    for (int slab = 0; slab < in_.slabs.count; ++slab) {
      product_.ClearSums();
      for (int first = 0; first < item.num_examples; first += kTile) {
        Coefficients(node, item, first, most, slab);
        const int examples = Smaller(kTile, item.num_examples - first);
        if (slab == 0) {
          TF_HSM_UNROLL
          for (int e = WarpIndex(); e < kTile; e += kWarps) {
            if (e < examples) db += dz_[e * kCoefficientStride + Lane()];
          }
        }
        product_.template AddSums<Source::kInputs>(
            dz_, examples, item.num_rows, x_, x_stride_, Columns(slab));
        SyncBlock();
      }
      const A unscale = most / CoefficientScale<Product>::value;
      A* rows = dw_ + int64_t{slab} * in_.slabs.columns;
      product_.ForEachSum(kTile, Columns(slab), [&](int i, int column, A sum) {
        rows[i * dw_stride_ + column] = sum * unscale;
      });
      if (slab == 0) db_parts_[ThreadIndex()] = db * unscale;
    }
    SyncBlock();
    if (ThreadIndex() < kTile) {
      db = 0;
      for (int w = 0; w < kWarps; ++w)
        db += db_parts_[w * kTile + ThreadIndex()];
      db_[ThreadIndex()] = db;
    }
    SyncBlock();
    Emit(node, item);
    SyncBlock();
  }

 private:
  static constexpr int kWarps = kTileThreads / kWarp;
  static constexpr int kPieces =
      10;  // so, 32 rows of 300 numbers are one round

  TF_HSM_DEVICE void PrefetchRows(const DeviceNode& node,
                                  const Item& item) const {
    constexpr int kLine = 128;
    const int64_t row_bytes = in_.width * sizeof(T);
    const char* rows = reinterpret_cast<const char*>(in_.weights) +
                       (node.first_row + item.row) * row_bytes;
    const int bytes = item.num_rows * static_cast<int>(row_bytes);
    for (int at = kLine * ThreadIndex(); at < bytes;
         at += kLine * kTileThreads) {
      Prefetch(rows + at);
    }
  }

  TF_HSM_DEVICE int Columns(int slab) const {
    const int64_t left = in_.width - int64_t{slab} * in_.slabs.columns;
    return static_cast<int>(Smaller<int64_t>(left, in_.slabs.columns));
  }

  // Fills dz_ [examples, rows] and leaves the own slab of x in its tile.
  TF_HSM_DEVICE void Coefficients(const DeviceNode& node, const Item& item,
                                  int first, A most, int own_slab) {
    const Buffers<T>& from = in_.buffers;
    const int64_t position = node.begin + item.example + first;
    const int examples = Smaller(kTile, item.num_examples - first);
    if (ThreadIndex() < examples) {
      const int64_t pass = from.plan.Pass(node.level, position + ThreadIndex());
      max_[ThreadIndex()] = from.normalizers[2 * pass];
      scale_[ThreadIndex()] = from.normalizers[2 * pass + 1];
      grad_[ThreadIndex()] =
          loss_grads_[from.plan.order[position + ThreadIndex()]] / most;
      const int64_t target =
          from.plan.path_rows[pass] - node.first_row - item.row;
      target_[ThreadIndex()] =
          target >= 0 && target < kTile ? static_cast<int>(target) : -1;
    }
    auto load_x = [&](int slab) {
      LoadTile(InputsOf<Product>(from) + position * in_.width +
                   int64_t{slab} * in_.slabs.columns,
               in_.width, examples, Columns(slab), in_.input_bytes,
               static_cast<int>(RoundUp(examples, 16)), x_stride_, x_);
    };
    auto write = [&](int row, int example, A z) {
      const bool active = row < item.num_rows && example < examples;
      A dz = 0;
      if (active) {
        const A p = Exp(z - max_[example]) * scale_[example];
        dz = (p - (row == target_[example] ? A(1) : A(0))) * grad_[example];
      }
      dz_[example * kCoefficientStride + row] =
          dz * CoefficientScale<Product>::value;
    };
    if (node.Keeps(item.example + first)) {
      load_x(own_slab);
      CommitCopies();
      const A* logits = from.logits + node.logits_offset + item.row +
                        (item.example + first) * node.fanout;
      A z[4];
      const int row = ThreadIndex() % kTile;
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int example = ThreadIndex() / kTile + 8 * i;
        const bool active = row < item.num_rows && example < examples;
        z[i] = active ? logits[example * node.fanout + row] : A(0);
      }
      WaitForCopies<0>();
      SyncBlock();
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        write(row, ThreadIndex() / kTile + 8 * i, z[i]);
      }
    } else {
      product_.ClearLogits();
      for (int slab = 0; slab < in_.slabs.count; ++slab) {
        load_x(slab);
        if (first == 0 || in_.slabs.count > 1) {
          LoadTile(in_.weights + (node.first_row + item.row) * in_.width +
                       int64_t{slab} * in_.slabs.columns,
                   in_.width, item.num_rows, Columns(slab), in_.weight_bytes,
                   kTile, w_stride_, w_);
        }
        CommitCopies();
        WaitForCopies<0>();
        SyncBlock();
        product_.MultiplyLogits(w_, w_stride_, x_, x_stride_,
                                PaddedColumns<Input>(Columns(slab)),
                                item.num_rows, examples, kWhole);
        SyncBlock();
      }
      if (own_slab != in_.slabs.count - 1) {
        load_x(own_slab);
        CommitCopies();
        WaitForCopies<0>();
      }
      product_.ForEachLogit([&](int row, int example, A z) {
        if (in_.biases != nullptr && row < item.num_rows) {
          z += Widen(in_.biases[node.first_row + item.row + row]);
        }
        write(row, example, z);
      });
    }
    SyncBlock();
  }

  TF_HSM_DEVICE void Emit(const DeviceNode& node, const Item& item) {
    const int64_t before =
        item.node == 0 ? 0 : in_.buffers.plan.totals[item.node - 1].rows;
    const RowSpan<A> rows = {node.first_row + item.row,
                             before + item.row,
                             item.num_rows,
                             dw_,
                             dw_stride_,
                             db_};
    if (item.slot >= 0) {
      const int64_t stride = PartStride(in_.width);
      StoreParts<kTileThreads>(rows, in_.width, stride,
                               in_.buffers.merge + item.slot * stride);
    } else {
      EmitRows<kTileThreads, kPieces>(out_, rows, in_.width,
                                      reinterpret_cast<RowTerms<A>*>(dz_));
    }
  }

  const LargeArguments<T>& in_;
  const A* loss_grads_;
  const RowOutput<T>& out_;
  const int w_stride_;
  const int x_stride_;
  T* w_;
  Input* x_;
  A* dz_;
  A* max_;
  A* scale_;
  A* grad_;
  int* target_;
  A* db_;
  A* db_parts_;  // [kWarps, kTile]
  A* dw_;
  int dw_stride_;
  Product product_;
};

template <typename Product>
TF_HSM_KERNEL(kTileThreads)
BackwardLarge(LargeArguments<typename Product::Weight> in,
              const typename Product::A* loss_grads,
              RowOutput<typename Product::Weight> out) {
  LargeBackward<Product> work(in, loss_grads, out);
  const NodeWork& all = in.buffers.plan.counts->work;
  const Item* items = in.buffers.backward_items + all.hot_backward_items;
  for (int64_t i = BlockIndex(); i < all.backward_items; i += NumBlocks()) {
    const Item item = items[i];
    if (item.num_examples > 0) work.Run(item);
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_
