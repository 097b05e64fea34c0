// Loss and dx at large groups that are not hot, from one read of the weights.
//
//   z = w x + b;   m = max z;   s = sum exp(z - m);   v = sum exp(z - m) w
//
// for some rows of a group and up to 32 examples that pass it, or 16 where that
// lets a second block onto the multiprocessor: what a block does for one item.
// Row tiles stream through shared memory, the next ones on their way while this
// one is used. m, s and v are rescaled when a tile raises the maximum, which is
// exact but for rounding (docs/math.md, section 4), so that the logits never
// leave the block, unless they are kept for the backward where that costs less
// than the weights. WalkPaths merges the items of a group. In a label tree
// (tile_softmax.h), v = sum dz w, and SumVisits adds them up.
//
// A width of more columns than fit is cut into slabs; then a block has one slab
// of v, and makes z from all of them.
//
// Bytes: the rows once per 32 (16) examples (from memory once, then from the
// second cache), x once per item, v once per item and example. FLOPs: 4 per
// weight and example with dx, 2 without.

#ifndef TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_
#define TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/loss/tile_softmax.h"

namespace tf_hsm::gpu {

template <typename Product, bool sigmoids>
class LargeForward {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  using A = typename Product::A;

  TF_HSM_DEVICE LargeForward(const LargeArguments<T>& in, bool with_dx)
      : in_(in),
        with_dx_(with_dx),
        w_stride_(TileStride<T>(in.slabs.columns)),
        x_stride_(TileStride<Input>(in.slabs.columns)) {}

  TF_HSM_DEVICE void Run(const Item& item, int own_slab) {
    const DeviceNode node = in_.buffers.plan.nodes[item.node];
    const int count = in_.slabs.count;
    // The own slab must be the one that is in place when a tile is done.
    const bool again = with_dx_ && own_slab != count - 1;
    const int steps = count + (again ? 1 : 0);
    const int64_t position = node.begin + item.example;
    const Input* inputs = InputsOf<Product>(in_.buffers) + position * in_.width;
    const T* w = in_.weights + (node.first_row + item.row) * in_.width;
    const Parts parts = Product::PartsOf(item.num_examples);
    TileSoftmax<Product, sigmoids> softmax(in_, node, item, own_slab == 0);
    const int x_rows = PlaceTiles(item.num_examples);

    auto first_column = [&](int step) {
      return int64_t{step < count ? step : own_slab} * in_.slabs.columns;
    };
    auto load_x = [&](int step) {
      LoadTile(inputs + first_column(step), in_.width, item.num_examples,
               Columns(first_column(step)), in_.input_bytes, x_rows, x_stride_,
               x());
    };
    product_.ClearSums();
    product_.ClearLogits();
    if (ThreadIndex() < kTile) {
      Terms().max[ThreadIndex()] = -static_cast<A>(INFINITY);
      Terms().sum[ThreadIndex()] = 0;
      Terms().factor[ThreadIndex()] = 1;
    }
    if (count == 1) load_x(0);
    Turn next, now;
    // The tiles on their way are loaded before the first one is used.
    for (int wait = stages_ - 1; now.row < item.num_rows;) {
      if (count == 1) WaitForCopies(stages_ - 2);
      SyncBlock();
      if (count > 1) {
        if (wait == 0 && now.step < count) load_x(now.step);
        CommitCopies();
      }
      if (next.row < item.num_rows) {
        LoadTile(w + next.row * in_.width + first_column(next.step), in_.width,
                 item.num_rows - next.row, Columns(first_column(next.step)),
                 in_.weight_bytes, kTile, w_stride_, Stage(next));
        next.Advance(steps, stages_);
      }
      CommitCopies();
      if (count > 1) {
        WaitForCopies<1>();
        SyncBlock();
      }
      if (wait > 0) {
        --wait;
        continue;
      }
      const bool last = now.step == steps - 1;
      typename TileSoftmax<Product, sigmoids>::Biases biases;
      softmax.Load(now.row, last, biases);
      if (now.step < count) {
        product_.MultiplyLogits(
            Stage(now), w_stride_, x(), x_stride_,
            PaddedColumns<Input>(Columns(first_column(now.step))), kTile,
            item.num_examples, parts);
      }
      if (last) {
        product_.ForEachLogit([&](int r, int e, A z) {
          Terms().z[r * kCoefficientStride + e] = z;
        });
        SyncBlock();
        softmax.Run(now.row, parts, biases, Terms());
        SyncBlock();
        if (with_dx_) {
          product_.ScaleSums(Terms().factor, item.num_examples);
          product_.template AddSums<Source::kWeights>(
              Terms().z, Smaller(kTile, item.num_rows - now.row),
              item.num_examples, Stage(now), w_stride_,
              Columns(first_column(steps - 1)));
        }
        product_.ClearLogits();
      }
      now.Advance(steps, stages_);
    }
    Store(item, position, node.level, own_slab);
  }

 private:
  // Shared memory begins at one address, so that these take no registers.
  TF_HSM_DEVICE static ForwardTerms<A>& Terms() {
    return *reinterpret_cast<ForwardTerms<A>*>(SharedMemory());
  }
  TF_HSM_DEVICE static Input* x() {
    return reinterpret_cast<Input*>(SharedMemory() + sizeof(ForwardTerms<A>));
  }

  // The tile and the slab that a stage has.
  struct Turn {
    int row = 0;
    int step = 0;
    int stage = 0;

    TF_HSM_DEVICE void Advance(int steps, int stages) {
      if (++stage == stages) stage = 0;
      if (++step < steps) return;
      step = 0;
      row += kTile;
    }
  };

  TF_HSM_DEVICE T* Stage(const Turn& turn) const {
    return reinterpret_cast<T*>(SharedMemory() + w_begin_) +
           turn.stage * kTile * w_stride_;
  }

  TF_HSM_DEVICE int Columns(int64_t first_column) const {
    return static_cast<int>(
        Smaller<int64_t>(in_.width - first_column, in_.slabs.columns));
  }

  // Gives what the inputs do not need to the row tiles; returns the inputs'
  // rows.
  TF_HSM_DEVICE int PlaceTiles(int num_examples) {
    const int rows = static_cast<int>(RoundUp(num_examples, 8));
    w_begin_ = static_cast<int>(sizeof(ForwardTerms<A>)) +
               rows * x_stride_ * static_cast<int>(sizeof(Input));
    const int64_t left = in_.shared_bytes - w_begin_;
    const int64_t tile = kTile * w_stride_ * static_cast<int>(sizeof(T));
    stages_ = 2;
    while (stages_ < kMaxStages && (stages_ + 1) * tile <= left) ++stages_;
    return rows;
  }

  TF_HSM_DEVICE void Store(const Item& item, int64_t position, int64_t level,
                           int own_slab) {
    WaitForCopies<0>();
    const Buffers<T>& out = in_.buffers;
    const int e = ThreadIndex();
    if (own_slab == 0 && e < item.num_examples) {
      out.partial_sums[2 * (item.slot + e)] = Terms().max[e];
      out.partial_sums[2 * (item.slot + e) + 1] = Terms().sum[e];
      if (item.row == 0) {
        out.pass_nodes[out.plan.Pass(level, position + e)] = item.node;
      }
    }
    if (with_dx_) {
      const int64_t column = int64_t{own_slab} * in_.slabs.columns;
      A* rows = out.partial_rows + item.slot * in_.width + column;
      product_.ForEachSum(item.num_examples, Columns(column),
                          [&](int i, int column, A sum) {
                            rows[i * in_.width + column] =
                                sum / CoefficientScale<Product>::value;
                          });
    }
    SyncBlock();  // before the next item's first writes
  }

  const LargeArguments<T>& in_;
  const bool with_dx_;
  const int w_stride_;
  const int x_stride_;
  int w_begin_;  // in bytes of shared memory, of stages_ tiles
  int stages_;
  Product product_;
};

template <typename Product, bool sigmoids = false>
TF_HSM_CROWDED_KERNEL(kTileThreads, Product::kBlocks)
ForwardLarge(LargeArguments<typename Product::Weight> in, bool with_dx) {
  const int slabs = with_dx ? in.slabs.count : 1;
  LargeForward<Product, sigmoids> work(in, with_dx);
  const int64_t count = in.buffers.plan.counts->work.forward_items * slabs;
  for (int64_t i = BlockIndex(); i < count; i += NumBlocks()) {
    const Item item = in.buffers.forward_items[i / slabs];
    if (item.num_examples == 0 || in.buffers.plan.nodes[item.node].IsHot(item))
      continue;
    work.Run(item, static_cast<int>(i % slabs));
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_
