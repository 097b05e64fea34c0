// dW and db of rows of large groups that are not hot, written out or applied in
// place.
//
//   dz = g (exp(z - m) / s - [row is on the path]);   dW = dz^T x;   db: dz
//
// or as PassTerms have it in a label tree, with a z-loss or with a soft cap,
//
// for 32 rows of a group and some of the examples that pass it: what a block
// does for one item. m and 1 / s are what the forward saved. The logits were
// kept, or are made again from the rows, which an update reads anyway. x tiles
// stream, dW stays in registers until the examples are through. Where labels
// are smoothed, the rows' shares are subtracted then (node_sums.h). In place,
// the item is the only one that reads or writes its rows, and does so last. A
// group that is cut by examples leaves partial sums, which MergeRows adds up in
// order.
//
// Bytes: x once per 32 rows (from the second cache), the rows once to be read
// and once to be written. FLOPs: 2 per weight and example, 4 with new logits.

#ifndef TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_
#define TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/loss/item_stream.h"
#include "cc/cuda/loss/large_forward.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/largest_grad.h"
#include "cc/cuda/tile/node_sums.h"
#include "cc/cuda/tile/product.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm::gpu {

// The beginning of the shared memory of a block of the backward. A tile of
// weights and one of x are behind it, whose place the rows of dW take later.
template <typename A>
struct alignas(16) BackwardTerms {
  A dz[kTile * kCoefficientStride];  // [examples, rows]
  PassTerms<A> passes[kTile];        // of examples
  A db[kTile];                       // of a row
  A db_parts[kTileThreads];
  ItemStream::Turns turns;
  Hyperparameters hyper;  // of an update
};

template <typename Product>
TF_HSM_HOST_DEVICE int64_t BackwardSharedBytes(int columns) {
  using A = typename Product::A;
  return sizeof(BackwardTerms<A>) +
         TileBytes<typename Product::Weight>(columns) +
         TileBytes<typename Product::Input>(columns);
}

template <typename Product>
class LargeBackward {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  using A = typename Product::A;

  TF_HSM_DEVICE LargeBackward(const LargeArguments<T>& in,
                              const RowOutput<T>& out)
      : in_(in),
        out_(out),
        w_stride_(TileStride<T>(in.slabs.columns)),
        x_stride_(TileStride<Input>(in.slabs.columns)) {}

  // The item of this turn.
  TF_HSM_DEVICE void Run(const ItemStream& stream) {
    const Item item = stream.ItemOf(0);
    const DeviceNode node = stream.NodeOf(0);
    stream.Fetch();
    BackwardTerms<A>& terms = Terms();
    const Buffers<T>& from = in_.buffers;
    const A most =
        CoefficientScale<Product>::value == 1
            ? A(1)
            : LargestGrad(
                  from.pass_terms +
                      from.plan.Pass(node.level, node.begin + item.example),
                  item.num_examples, terms.db_parts);
    PrefetchRows(node, item);
    A own_db = 0;  // of row Lane(), by every eighth example
    for (int slab = 0; slab < in_.slabs.count; ++slab) {
      product_.ClearSums();
      for (int first = 0; first < item.num_examples; first += kTile) {
        Coefficients(node, item, first, most, slab);
        const int examples = Smaller(kTile, item.num_examples - first);
        if (slab == 0) {
          TF_HSM_UNROLL
          for (int e = WarpIndex(); e < kTile; e += kWarps) {
            if (e < examples)
              own_db += terms.dz[e * kCoefficientStride + Lane()];
          }
        }
        product_.template AddSums<Source::kInputs>(
            terms.dz, examples, item.num_rows, x(), x_stride_, Columns(slab));
        SyncBlock();
      }
      const A unscale = most / CoefficientScale<Product>::value;
      auto store = [&](A* rows, int stride) {
        product_.ForEachSum(kTile, Columns(slab),
                            [&](int i, int column, A sum) {
                              rows[i * stride + column] = sum * unscale;
                            });
      };
      if (in_.slabs.count == 1) {
        store(reinterpret_cast<A*>(w()), TileStride<A>(in_.slabs.columns));
      } else {
        store(BlockRows() + int64_t{slab} * in_.slabs.columns,
              static_cast<int>(in_.width));
      }
      if (slab == 0) terms.db_parts[ThreadIndex()] = own_db * unscale;
    }
    SyncBlock();
    PrefetchLogits(stream.NodeOf(1), stream.ItemOf(1));
    if (ThreadIndex() < kTile) {
      A sum = 0;
      for (int warp = 0; warp < kWarps; ++warp) {
        sum += terms.db_parts[warp * kTile + ThreadIndex()];
      }
      terms.db[ThreadIndex()] = sum;
    }
    SyncBlock();
    Emit(node, item);
    SyncBlock();
  }

 private:
  // Shared memory begins at one address, so that these take no registers.
  TF_HSM_DEVICE static BackwardTerms<A>& Terms() {
    return *reinterpret_cast<BackwardTerms<A>*>(SharedMemory());
  }
  TF_HSM_DEVICE T* w() const {
    return reinterpret_cast<T*>(SharedMemory() + sizeof(BackwardTerms<A>));
  }
  TF_HSM_DEVICE Input* x() const {
    return reinterpret_cast<Input*>(w() + kTile * w_stride_);
  }

  static constexpr int kWarps = kTileThreads / kWarp;
  static constexpr int kPieces =
      10;  // so, 32 rows of 300 numbers are one round

  // The logits that the first tile of the next item reads.
  TF_HSM_DEVICE void PrefetchLogits(const DeviceNode& node,
                                    const Item& item) const {
    if (ThreadIndex() >= 2 * Smaller(item.num_examples, kTile) ||
        !node.Keeps(item.example)) {
      return;
    }
    const A* logits = in_.buffers.logits + node.logits_offset + item.row +
                      (item.example + ThreadIndex() / 2) * node.logits_stride();
    Prefetch(logits + (ThreadIndex() % 2 == 0 ? 0 : item.num_rows - 1));
  }

  // What an update reads last. A turn earlier was slower (docs/gpu.md).
  TF_HSM_DEVICE void PrefetchRows(const DeviceNode& node,
                                  const Item& item) const {
    if (!out_.updates) return;
    constexpr int kLine = 128;
    if (ThreadIndex() == kTileThreads - 1 && in_.biases != nullptr) {
      Prefetch(in_.biases + node.first_row + item.row);
    }
    const int64_t row_bytes = in_.width * sizeof(T);
    const char* rows = reinterpret_cast<const char*>(in_.weights) +
                       (node.first_row + item.row) * row_bytes;
    const int bytes = item.num_rows * static_cast<int>(row_bytes);
    for (int at = kLine * ThreadIndex(); at < bytes;
         at += kLine * kTileThreads) {
      Prefetch(rows + at);
    }
  }

  // The block's dW, which is in memory if there are several slabs.
  TF_HSM_DEVICE A* BlockRows() const {
    return in_.buffers.block_rows + BlockIndex() * kTile * in_.width;
  }

  TF_HSM_DEVICE int Columns(int slab) const {
    const int64_t left = in_.width - int64_t{slab} * in_.slabs.columns;
    return static_cast<int>(Smaller<int64_t>(left, in_.slabs.columns));
  }

  // Fills the terms' dz and leaves the own slab of x in its tile.
  TF_HSM_DEVICE void Coefficients(const DeviceNode& node, const Item& item,
                                  int first, A most, int own_slab) {
    BackwardTerms<A>& terms = Terms();
    const Buffers<T>& from = in_.buffers;
    const int64_t position = node.begin + item.example + first;
    const int examples = Smaller(kTile, item.num_examples - first);
    if (ThreadIndex() < examples) {
      CopyTerms(from.pass_terms + from.plan.Pass(node.level, position) +
                    ThreadIndex(),
                true, &terms.passes[ThreadIndex()]);
    }
    const auto first_row = static_cast<uint32_t>(node.first_row + item.row);
    const A scale = CoefficientScale<Product>::value / most;
    auto load_x = [&](int slab) {
      LoadTile(InputsOf<Product>(from) + position * in_.width +
                   int64_t{slab} * in_.slabs.columns,
               in_.width, examples, Columns(slab), in_.input_bytes,
               static_cast<int>(RoundUp(examples, 16)), x_stride_, x());
    };
    auto write = [&](int row, int example, A z) {
      const bool active = row < item.num_rows && example < examples;
      A value = 0;
      if (active && HasSigmoids(from)) {
        value = z * terms.passes[example].grad;
      } else if (active) {
        const PassTerms<A> pass = terms.passes[example];
        value = (Product::Exp(z - pass.max) * pass.scale -
                 (first_row + row == pass.target ? pass.grad : A(0))) *
                from.soft_cap.Slope(z);
      }
      terms.dz[example * kCoefficientStride + row] = value * scale;
    };
    if (node.Keeps(item.example + first)) {
      load_x(own_slab);
      CommitCopies();
      const A* logits = from.logits + node.logits_offset + item.row +
                        (item.example + first) * node.logits_stride();
      A z[4];
      const int row = ThreadIndex() % kTile;
      TF_HSM_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int example = ThreadIndex() / kTile + 8 * i;
        const bool active = row < item.num_rows && example < examples;
        z[i] = active ? logits[example * node.logits_stride() + row] : A(0);
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
                   kTile, w_stride_, w());
        }
        CommitCopies();
        WaitForCopies<0>();
        SyncBlock();
        product_.MultiplyLogits(w(), w_stride_, x(), x_stride_,
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
        write(row, example, from.soft_cap.Logit(z));
      });
    }
    SyncBlock();
  }

  TF_HSM_DEVICE void Emit(const DeviceNode& node, const Item& item) {
    const int64_t before =
        out_.updates ? 0 : in_.buffers.plan.RowsBefore(item.node);
    const bool one_slab = in_.slabs.count == 1;
    const RowSpan<A> rows = {node.first_row + item.row,
                             before + item.row,
                             item.num_rows,
                             one_slab ? reinterpret_cast<A*>(w()) : BlockRows(),
                             one_slab ? TileStride<A>(in_.slabs.columns)
                                      : static_cast<int>(in_.width),
                             Terms().db};
    if (item.slot >= 0) {
      const int64_t stride = PartStride(in_.width);
      StoreParts<kTileThreads>(rows, in_.width, stride,
                               in_.buffers.merge + item.slot * stride);
    } else {
      SubtractShares<kTileThreads>(in_.buffers, item.node, in_.width, rows);
      EmitRows<kTileThreads, kPieces>(
          out_, rows, in_.width, reinterpret_cast<RowTerms<A>*>(Terms().dz));
    }
  }

  const LargeArguments<T>& in_;
  const RowOutput<T>& out_;
  const int w_stride_;
  const int x_stride_;
  Product product_;
};

template <typename Product>
TF_HSM_CROWDED_KERNEL(kTileThreads, Product::kBlocks)
BackwardLarge(LargeArguments<typename Product::Weight> in,
              RowOutput<typename Product::Weight> out) {
  auto& terms =
      *reinterpret_cast<BackwardTerms<typename Product::A>*>(SharedMemory());
  RowOutput<typename Product::Weight> own = out;
  if (out.updates) {
    CopyObject(2 * kWarp, out.update.hyper, true, &terms.hyper);
    own.update.hyper = &terms.hyper;
  }
  LargeBackward<Product> work(in, own);
  const NodeWork& all = in.buffers.plan.counts->work;
  ItemStream stream(in.buffers.backward_items + all.hot_backward_items,
                    all.backward_items, in.buffers.plan.nodes, &terms.turns);
  for (; stream.HasItem(); stream.Advance()) {
    if (stream.ItemOf(0).num_examples > 0) {
      work.Run(stream);
    } else {
      stream.Fetch();
      stream.Wait();
    }
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_LARGE_BACKWARD_H_
