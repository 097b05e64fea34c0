// Logits and their log-sum-exps at hot groups.
//
//   z = x w + b;   m = max z;   s = sum exp(z - m)
//
// for some rows of a group and up to 128 examples that pass it: what a block
// does for one item, one tile of 128 rows after the other. Slices of x and w
// stream through shared memory in three stages, across the ends of tiles. The
// logits go to memory, since the gradients that follow (hot_sums.h) read them
// faster than they could be made again (docs/gpu.md); m and s of a tile are
// merged into those of the item in the order of the rows.
//
// Bytes: x once per 128 rows and w once per 128 examples, from the second
// cache; the logits once. FLOPs: 2 per weight and example.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/loss/hot/hot_load.h"

namespace tf_hsm {
namespace gpu {

template <typename Product>
class HotLogitsOf {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;

  TF_HSM_DEVICE explicit HotLogitsOf(const HotArguments<Product>& in)
      : in_(in) {
    x_ = reinterpret_cast<Input*>(SharedMemory());
    w_ = reinterpret_cast<T*>(x_ + kHotStages * kXPanel);
    parts_ = reinterpret_cast<float*>(w_ + kHotStages * kWPanel);
  }

  static constexpr int64_t SharedBytes() {
    return kHotStages * (kXPanel * sizeof(Input) + kWPanel * sizeof(T)) +
           Product::kRowParts * 2 * kHotTile * sizeof(float);
  }

  TF_HSM_DEVICE void Run(const DeviceNode& node, const Item& item) {
    const int slices = static_cast<int>(CeilDivide(in_.width, kSlice));
    const int steps =
        static_cast<int>(CeilDivide(item.num_rows, kHotTile)) * slices;
    product_.Clear();
    for (int q = -kHotStages + 1; q < steps; ++q) {
      WaitForCopies<kHotStages - 2>();
      SyncBlock();
      const int next = q + kHotStages - 1;
      if (next < steps) {
        const int row = next / slices * kHotTile;
        const int column = next % slices * kSlice;
        const int columns =
            static_cast<int>(Smaller<int64_t>(kSlice, in_.width - column));
        const Input* x =
            in_.x + (node.begin + item.example) * in_.width + column;
        const T* w = in_.weights +
                     (node.first_row + item.row + row) * in_.width + column;
        LoadPanel<Product::kThreads, kHotTile, kSlice>(
            x, in_.width, item.num_examples, columns, in_.input_bytes,
            PanelStride<Input>(Depth::kInside, kSlice), XPanel(next));
        LoadPanel<Product::kThreads, kHotTile, kSlice>(
            w, in_.width, item.num_rows - row, columns, in_.weight_bytes,
            PanelStride<T>(Depth::kInside, kSlice), WPanel(next));
      }
      CommitCopies();
      if (q < 0) continue;
      const int row = q / slices * kHotTile;
      const int rows = Smaller(kHotTile, item.num_rows - row);
      product_
          .template Multiply<Depth::kInside, Depth::kInside, Source::kWeights>(
              XPanel(q), WPanel(q), 0, kSlice, item.num_examples, rows);
      if (q % slices != slices - 1) continue;
      FinishTile(node, item, row, rows);
      SyncBlock();
      if (ThreadIndex() < item.num_examples) {
        Merge(node, item, row, rows);
      }
      product_.Clear();
    }
    WaitForCopies<0>();
    if (item.row == 0 && ThreadIndex() < item.num_examples) {
      const Buffers<T>& out = in_.buffers;
      out.pass_nodes[out.plan.Pass(
          node.level, node.begin + item.example + ThreadIndex())] = item.node;
    }
  }

 private:
  static constexpr int kSlice = Product::kDepth;
  static constexpr int kXPanel = PanelSize<Input>(Depth::kInside, kSlice);
  static constexpr int kWPanel = PanelSize<T>(Depth::kInside, kSlice);

  TF_HSM_DEVICE Input* XPanel(int q) const {
    return x_ + q % kHotStages * kXPanel;
  }
  TF_HSM_DEVICE T* WPanel(int q) const { return w_ + q % kHotStages * kWPanel; }

  // Stores the logits of a tile, and m and s of each part of a row of it.
  TF_HSM_DEVICE void FinishTile(const DeviceNode& node, const Item& item,
                                int row, int rows) {
    if (in_.biases != nullptr) {
      const T* biases = in_.biases + node.first_row + item.row + row;
      TF_HSM_UNROLL
      for (int n = 0; n < Product::kColumns; ++n) {
        const int r = Product::Column(n);
        const float bias = r < rows ? Widen(biases[r]) : 0.0f;
        TF_HSM_UNROLL
        for (int m = 0; m < Product::kRows; ++m) product_.At(m, n) += bias;
      }
    }
    TF_HSM_UNROLL
    for (int n = 0; n < Product::kColumns; ++n) {
      if (Product::Column(n) < rows) continue;
      TF_HSM_UNROLL
      for (int m = 0; m < Product::kRows; ++m) product_.At(m, n) = -INFINITY;
    }
    float* logits = Logits(node, item, Product::Row(0), row);
    float* part =
        parts_ + 2 * (Product::RowPart() * kHotTile + Product::Row(0));
    TF_HSM_UNROLL
    for (int m = 0; m < Product::kRows; ++m) {
      float max = -INFINITY;
      TF_HSM_UNROLL
      for (int n = 0; n < Product::kColumns; ++n) {
        max = Max(max, product_.At(m, n));
      }
      for (int lanes = Product::kRowLanes / 2; lanes > 0; lanes /= 2) {
        max = Max(max, ShuffleXor(max, lanes));
      }
      float sum = 0;
      TF_HSM_UNROLL
      for (int n = 0; n < Product::kColumns; ++n) {
        sum += Exp(product_.At(m, n) - Shift(max));
      }
      for (int lanes = Product::kRowLanes / 2; lanes > 0; lanes /= 2) {
        sum += ShuffleXor(sum, lanes);
      }
      if (Product::Row(m) < item.num_examples) {
        if (Lane() % Product::kRowLanes == 0) {
          part[0] = max;
          part[1] = sum;
        }
        TF_HSM_UNROLL
        for (int n = 0; n < Product::kColumns; ++n) {
          const int r = Product::Column(n);
          if (r < rows) logits[r] = product_.At(m, n);
        }
      }
      logits += Product::kRowStep * node.fanout;
      part += 2 * Product::kRowStep;
    }
  }

  // The logits of example e of the item, from its row `row` on.
  TF_HSM_DEVICE float* Logits(const DeviceNode& node, const Item& item, int e,
                              int row) const {
    return in_.buffers.logits + node.logits_offset +
           (item.example + e) * node.fanout + item.row + row;
  }

  // For example ThreadIndex(): the logit of its path, if it is in this tile,
  // and the parts of the tile added to its m and s, which lie where they go.
  TF_HSM_DEVICE void Merge(const DeviceNode& node, const Item& item, int row,
                           int rows) const {
    const Buffers<T>& out = in_.buffers;
    const int e = ThreadIndex();
    const int64_t pass =
        out.plan.Pass(node.level, node.begin + item.example + e);
    const int64_t target =
        out.plan.path_rows[pass] - node.first_row - item.row - row;
    if (target >= 0 && target < rows) {
      out.target_logits[pass] = Logits(node, item, e, row)[target];
    }
    float* all = out.partial_sums + 2 * (item.slot + e);
    float max = -INFINITY, sum = 0;
    if (row > 0) {
      max = all[0];
      sum = all[1];
    }
    for (int part = 0; part < Product::kRowParts; ++part) {
      const float* other = parts_ + 2 * (part * kHotTile + ThreadIndex());
      const float now = Max(max, other[0]);
      const float shift = Shift(now);
      sum = sum * Exp(max - shift) + other[1] * Exp(other[0] - shift);
      max = now;
    }
    all[0] = max;
    all[1] = sum;
  }

  const HotArguments<Product>& in_;
  Input* x_;
  T* w_;
  float* parts_;  // [kRowParts, kHotTile, 2], m and s
  Product product_;
};

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotLogits(HotArguments<Product> in) {
  HotLogitsOf<Product> work(in);
  const DevicePlan& plan = in.buffers.plan;
  for (int64_t i = BlockIndex(); i < plan.counts->work.forward_items;
       i += NumBlocks()) {
    const Item& item = in.buffers.forward_items[i];
    if (item.num_examples == 0) continue;
    const DeviceNode& node = plan.nodes[item.node];
    if (node.IsHot(item)) work.Run(node, item);
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_
