// Loss and dx at large groups that are not hot, from one read of the weights.
//
//   z = w x + b;   m = max z;   s = sum exp(z - m);   v = sum exp(z - m) w
//
// for some rows of a group and up to 32 examples that pass it: what a block
// does for one item. Row tiles stream through shared memory, the next one on
// its way while this one is used. m, s and v are rescaled when a tile raises
// the maximum, which is exact but for rounding (docs/math.md, section 4), so
// that the logits never leave the block, unless they are kept for the backward
// where that costs less than the weights. WalkPaths merges the items of a
// group.
//
// A width of more columns than fit is cut into slabs; then a block has one slab
// of v, and makes z from all of them.
//
// Bytes: the rows once per 32 examples (from memory once, then from the second
// cache), x once per item, v once per item and example. FLOPs: 4 per weight and
// example with dx, 2 without.

#ifndef TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_
#define TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
struct LargeArguments {
  const T* weights;
  const T* biases;
  int64_t width;
  Slabs slabs;
  int weight_bytes;  // of a copy, see CopyBytes
  int input_bytes;
  Buffers<T> buffers;
};

// Shared memory of a block of the forward.
template <typename Product>
TF_HSM_HOST_DEVICE int64_t ForwardSharedBytes(int columns) {
  return 2 * TileBytes<typename Product::Weight>(columns) +
         TileBytes<typename Product::Input>(columns) +
         (kTile * kCoefficientStride + 3 * kTile) * sizeof(typename Product::A);
}

template <typename Product>
class LargeForward {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;
  using A = typename Product::A;

  TF_HSM_DEVICE LargeForward(const LargeArguments<T>& in, bool with_dx)
      : in_(in),
        with_dx_(with_dx),
        w_stride_(TileStride<T>(in.slabs.columns)),
        x_stride_(TileStride<Input>(in.slabs.columns)) {
    char* shared = SharedMemory();
    w_ = reinterpret_cast<T*>(shared);
    x_ = reinterpret_cast<Input*>(w_ + 2 * kTile * w_stride_);
    z_ = reinterpret_cast<A*>(x_ + kTile * x_stride_);
    max_ = z_ + kTile * kCoefficientStride;
    sum_ = max_ + kTile;
    factor_ = sum_ + kTile;
  }

  TF_HSM_DEVICE void Run(const Item& item, int own_slab) {
    const DeviceNode node = in_.buffers.plan.nodes[item.node];
    const int count = in_.slabs.count;
    // The own slab must be the one that is in place when a tile is done.
    const bool again = with_dx_ && own_slab != count - 1;
    const int steps = count + (again ? 1 : 0);
    const int tiles = static_cast<int>(CeilDivide(item.num_rows, kTile));
    const int64_t position = node.begin + item.example;
    const A* x = in_.buffers.x + position * in_.width;

    auto slab_of = [&](int step) { return step < count ? step : own_slab; };
    auto load = [&](int q) {
      const int row = q / steps * kTile;
      const int slab = slab_of(q % steps);
      LoadTile(in_.weights + (node.first_row + item.row + row) * in_.width +
                   int64_t{slab} * in_.slabs.columns,
               in_.width, item.num_rows - row, Columns(slab), in_.weight_bytes,
               w_stride_, Stage(q));
    };
    auto load_x = [&](int slab) {
      LoadInputs<Input>(x + int64_t{slab} * in_.slabs.columns, in_.width,
                        item.num_examples, Columns(slab), in_.input_bytes,
                        x_stride_, x_);
    };

    product_.ClearSums();
    product_.ClearLogits();
    if (ThreadIndex() < kTile) {
      max_[ThreadIndex()] = -static_cast<A>(INFINITY);
      sum_[ThreadIndex()] = 0;
    }
    if (count == 1) load_x(0);
    load(0);
    CommitCopies();
    for (int q = 0; q < tiles * steps; ++q) {
      const int step = q % steps;
      if (count > 1 && step < count) load_x(step);
      CommitCopies();
      if (q + 1 < tiles * steps) load(q + 1);
      CommitCopies();
      WaitForCopies<1>();
      SyncBlock();
      if (step < count) {
        product_.MultiplyLogits(
            Stage(q), w_stride_, x_, x_stride_,
            static_cast<int>(RoundUp(Columns(step), kColumnStep)), kTile,
            item.num_examples);
      }
      if (step == steps - 1) {
        const int row = q / steps * kTile;
        Softmax(node, item, row, own_slab == 0);
        if (with_dx_) {
          product_.ScaleSums(factor_, item.num_examples);
          product_.AddSums(z_, Smaller(kTile, item.num_rows - row),
                           item.num_examples, Stage(q), w_stride_,
                           Columns(own_slab));
        }
        product_.ClearLogits();
      }
      SyncBlock();
    }
    Store(item, position, node.level, own_slab);
  }

 private:
  TF_HSM_DEVICE T* Stage(int q) const { return w_ + q % 2 * kTile * w_stride_; }

  TF_HSM_DEVICE int Columns(int slab) const {
    const int64_t left = in_.width - int64_t{slab} * in_.slabs.columns;
    return static_cast<int>(Smaller<int64_t>(left, in_.slabs.columns));
  }

  // Turns the logits of a tile into exp(z - m), and the factors by which what
  // was summed before is out.
  TF_HSM_DEVICE void Softmax(const DeviceNode& node, const Item& item, int row,
                             bool writes) {
    product_.ForEachLogit(
        [&](int r, int e, A z) { z_[r * kCoefficientStride + e] = z; });
    SyncBlock();
    // Eight threads per example, four rows each.
    const int example = ThreadIndex() / 8;
    const int64_t first = item.row + row + ThreadIndex() % 8;
    const int rows = Smaller(kTile, item.num_rows - row) - ThreadIndex() % 8;
    A* z_at = z_ + ThreadIndex() % 8 * kCoefficientStride + example;
    const bool active = example < item.num_examples;
    const DevicePlan& plan = in_.buffers.plan;
    const int64_t position = node.begin + item.example + example;
    const int64_t pass = plan.Pass(node.level, position);
    const int64_t target =
        active ? plan.path_rows[pass] - node.first_row : int64_t{-1};
    const bool keeps = active && writes && node.Keeps(item.example + example);
    A z[4];
    A max = -static_cast<A>(INFINITY);
    TF_HSM_UNROLL
    for (int i = 0; i < 4; ++i) {
      z[i] = z_at[8 * i * kCoefficientStride];
      if (8 * i >= rows) continue;
      const int64_t local = first + 8 * i;
      if (in_.biases != nullptr) {
        z[i] += Widen(in_.biases[node.first_row + local]);
      }
      max = Max(max, z[i]);
      if (active && writes && local == target) {
        in_.buffers.target_logits[pass] = z[i];
      }
      if (keeps) {
        in_.buffers.logits[node.logits_offset +
                           (item.example + example) * node.fanout + local] =
            z[i];
      }
    }
    for (int lanes = 4; lanes > 0; lanes /= 2) {
      max = Max(max, ShuffleXor(max, lanes));
    }
    const A before = max_[example];
    const A now = Max(before, max);
    const A shift = Shift(now);
    A sum = 0;
    TF_HSM_UNROLL
    for (int i = 0; i < 4; ++i) {
      const A e = 8 * i < rows ? Exp(z[i] - shift) : A(0);
      sum += e;
      z_at[8 * i * kCoefficientStride] = e * CoefficientScale<Product>::value;
    }
    for (int lanes = 4; lanes > 0; lanes /= 2) sum += ShuffleXor(sum, lanes);
    const A factor = Exp(before - shift);
    if (ThreadIndex() % 8 == 0) {
      factor_[example] = factor;
      sum_[example] = sum_[example] * factor + sum;
      max_[example] = now;
    }
    SyncBlock();
  }

  TF_HSM_DEVICE void Store(const Item& item, int64_t position, int64_t level,
                           int own_slab) {
    WaitForCopies<0>();
    const Buffers<T>& out = in_.buffers;
    const int e = ThreadIndex();
    if (own_slab == 0 && e < item.num_examples) {
      out.partial_sums[2 * (item.slot + e)] = max_[e];
      out.partial_sums[2 * (item.slot + e) + 1] = sum_[e];
      if (item.row == 0) {
        out.pass_nodes[out.plan.Pass(level, position + e)] = item.node;
      }
    }
    if (with_dx_) {
      A* rows = out.partial_rows + item.slot * in_.width +
                int64_t{own_slab} * in_.slabs.columns;
      product_.ForEachSum(item.num_examples, Columns(own_slab),
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
  T* w_;  // two tiles
  Input* x_;
  A* z_;
  A* max_;
  A* sum_;
  A* factor_;
  Product product_;
};

template <typename Product>
TF_HSM_KERNEL(kTileThreads)
ForwardLarge(LargeArguments<typename Product::Weight> in, bool with_dx) {
  const int slabs = with_dx ? in.slabs.count : 1;
  LargeForward<Product> work(in, with_dx);
  const int64_t count = in.buffers.plan.counts->work.forward_items * slabs;
  for (int64_t i = BlockIndex(); i < count; i += NumBlocks()) {
    const Item item = in.buffers.forward_items[i / slabs];
    if (item.num_examples == 0 || in.buffers.plan.nodes[item.node].IsHot(item))
      continue;
    work.Run(item, static_cast<int>(i % slabs));
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_LARGE_FORWARD_H_
