// Logits and their log-sum-exps at hot groups.
//
//   z = x w + b, or its soft cap;   m = max z;   s = sum exp(z - m)
//
// for some rows of a group and up to 128 examples that pass it: what a block
// does for one item, one tile of 128 rows after the other. Slices of x and w
// stream through shared memory, the next ones on their way, across the ends of
// tiles. The logits go to memory, since the gradients that follow (hot_sums.h)
// read them faster than products of tf32 could make them again; m and s of a
// tile are merged into the item's in the order of the rows.
//
// Bytes: x once per 128 rows and w once per 128 examples, from the second
// cache; the logits once. FLOPs: 2 per weight and example.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/loss/hot/hot_product.h"

namespace tf_hsm::gpu {

template <typename Product>
class HotLogitsOf {
 public:
  using T = typename Product::Weight;
  using Input = typename Product::Input;

  TF_HSM_DEVICE explicit HotLogitsOf(const HotArguments<Product>& in)
      : in_(in) {}

  static constexpr int64_t SharedBytes() { return sizeof(Shared); }

  TF_HSM_DEVICE void Run(const DeviceNode& node, const Item& item) {
    const int width = static_cast<int>(in_.width);
    const Input* const x = in_.x + (node.begin + item.example) * in_.width;
    const T* const w = in_.weights + (node.first_row + item.row) * in_.width;
    product_.Clear();
    Turn next, now;
    for (int wait = kStages - 1; now.row < item.num_rows;) {
      WaitForCopies<kStages - 2>();
      SyncBlock();
      if (next.row < item.num_rows) {
        const int columns = Smaller(kSlice, width - next.column);
        LoadPanel<Product::kThreads, kHotTile, kSlice>(
            x + next.column, in_.width, item.num_examples, columns,
            in_.input_bytes,
            PanelStride<Input>(Depth::kInside, kSlice, kHotTile),
            Block().x[next.stage]);
        LoadPanel<Product::kThreads, kHotTile, kSlice>(
            w + next.row * in_.width + next.column, in_.width,
            item.num_rows - next.row, columns, in_.weight_bytes,
            PanelStride<T>(Depth::kInside, kSlice, kHotTile),
            Block().w[next.stage]);
        next.Advance(width);
      }
      CommitCopies();
      if (wait > 0) {
        --wait;
        continue;
      }
      const int rows = Smaller(kHotTile, item.num_rows - now.row);
      const int depth = Smaller(kSlice, width - now.column);
      product_.Multiply(Block().x[now.stage], Block().w[now.stage], depth,
                        item.num_examples, rows);
      const int row = now.row;
      now.Advance(width);
      if (now.row == row) continue;
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
  static constexpr int kStages = Product::kStages;
  static constexpr int kXPanel =
      PanelSize<Input>(Depth::kInside, kSlice, kHotTile);
  static constexpr int kWPanel = PanelSize<T>(Depth::kInside, kSlice, kHotTile);

  struct alignas(16) Shared {
    Input x[kStages][kXPanel];
    T w[kStages][kWPanel];
    float parts[Product::kRowParts * kHotTile * 2];  // m and s
  };
  // At one address, so that it takes no register.
  TF_HSM_DEVICE static Shared& Block() {
    return *reinterpret_cast<Shared*>(SharedMemory());
  }

  // The tile and the slice that a stage has.
  struct Turn {
    int row = 0;
    int column = 0;
    int stage = 0;

    TF_HSM_DEVICE void Advance(int width) {
      if (++stage == kStages) stage = 0;
      column += kSlice;
      if (column < width) return;
      column = 0;
      row += kHotTile;
    }
  };

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
    if (in_.buffers.soft_cap.most > 0) {
      TF_HSM_UNROLL
      for (int m = 0; m < Product::kRows; ++m) {
        TF_HSM_UNROLL
        for (int n = 0; n < Product::kColumns; ++n) {
          product_.At(m, n) = in_.buffers.soft_cap.Logit(product_.At(m, n));
        }
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
        Block().parts + 2 * (Product::RowPart() * kHotTile + Product::Row(0));
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
      const float shift = Shift(max);
      float sum = 0;
      TF_HSM_UNROLL
      for (int n = 0; n < Product::kColumns; ++n) {
        sum += Product::Exp(product_.At(m, n) - shift);
      }
      for (int lanes = Product::kRowLanes / 2; lanes > 0; lanes /= 2) {
        sum += ShuffleXor(sum, lanes);
      }
      if (Product::Row(m) < item.num_examples) {
        if (Lane() % Product::kRowLanes == 0) {
          part[0] = max;
          part[1] = sum;
        }
        StoreLogits(m, rows, logits);
      }
      logits += Product::kRowStep * node.logits_stride();
      part += 2 * Product::kRowStep;
    }
  }

  // Stores the logits of Row(m); behind an odd number of them also minus
  // infinity, which hot_sums.h reads.
  TF_HSM_DEVICE void StoreLogits(int m, int rows, float* logits) {
    constexpr int kTogether = Product::kTogether;
    TF_HSM_UNROLL
    for (int n = 0; n < Product::kColumns; n += kTogether) {
      const int r = Product::Column(n);
      if (r >= rows + rows % 2) continue;
      Neighbours<float, kTogether> some;
      TF_HSM_UNROLL
      for (int i = 0; i < kTogether; ++i)
        some.values[i] = product_.At(m, n + i);
      *InPieces<Neighbours<float, kTogether>>(logits + r) = some;
    }
  }

  // The logits of example e of the item, from its row `row` on.
  TF_HSM_DEVICE float* Logits(const DeviceNode& node, const Item& item, int e,
                              int row) const {
    return in_.buffers.logits + node.logits_offset +
           (item.example + e) * node.logits_stride() + item.row + row;
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
      const float* other =
          Block().parts + 2 * (part * kHotTile + ThreadIndex());
      const float now = Max(max, other[0]);
      const float shift = Shift(now);
      sum = sum * Exp(max - shift) + other[1] * Exp(other[0] - shift);
      max = now;
    }
    all[0] = max;
    all[1] = sum;
  }

  const HotArguments<Product>& in_;
  Product product_;
};

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotLogits(HotArguments<Product> in) {
  HotLogitsOf<Product> work(in);
  const DevicePlan& plan = in.buffers.plan;
  for (int64_t i = BlockIndex(); i < plan.counts->work.forward_items;
       i += NumBlocks()) {
    const Item item = in.buffers.forward_items[i];
    if (item.num_examples == 0) continue;
    const DeviceNode& node = plan.nodes[item.node];
    if (node.IsHot(item)) work.Run(node, item);
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_LOGITS_H_
