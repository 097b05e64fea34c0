// dx, dW and db at hot groups, from the logits that hot_logits.h left.
//
//   forward:   v [e, :] = sum over rows r of  exp(z [e, r] - m [e]) w [r, :]
//   backward:  dW [r, :] = sum over examples e of  dz [e, r] x [e, :]
//   dz = g (exp(z - m) / s - [row is on the path]);   db = sum of dz
//
// Both are sums over k of coefficients [k, i] times a source [k, columns]: for
// 128 examples or rows i and up to 128 columns, what a block does for one item
// and slab of columns. Slices of the source stream through shared memory; the
// logits of the next slice are on their way to registers while this one is
// used, and become coefficients after it. A group that is cut leaves parts,
// added in order by path.h (rows) and MergeRows (examples). Where rows are not
// cut, a block makes all slabs of them and then gives them out.
//
// Bytes: the logits once per slab, the source once per 128 i, from the second
// cache. FLOPs: 2 per weight and example, and an exponential per slab.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cc/cuda/loss/hot/hot_load.h"
#include "cc/cuda/tile/largest_grad.h"
#include "cc/cuda/tile/node_sums.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm {
namespace gpu {

template <typename Product, bool backward>
class HotSums {
 public:
  using T = typename Product::Weight;
  using Source = std::conditional_t<backward, typename Product::Input, T>;
  using Coefficient = typename Product::Coefficient;

  TF_HSM_DEVICE explicit HotSums(const HotArguments<Product>& in) : in_(in) {
    source_ = reinterpret_cast<Source*>(SharedMemory());
    coefficients_ =
        reinterpret_cast<Coefficient*>(source_ + kStages * kSourcePanel);
    terms_ = reinterpret_cast<PassTerms<float>*>(coefficients_ + 2 * kPanel);
    sums_ = reinterpret_cast<float*>(terms_ + kTerms);
    bias_ = sums_ + 2 * Product::kThreads;
    most_ = bias_ + kHotTile;
  }

  static constexpr int64_t SharedBytes() {
    return kStages * kSourcePanel * sizeof(Source) +
           2 * kPanel * sizeof(Coefficient) +
           kTerms * sizeof(PassTerms<float>) +
           (2 * Product::kThreads + kHotTile + 2) * sizeof(float);
  }

  // One slab of v.
  TF_HSM_DEVICE void Forward(const DeviceNode& node, const Item& item,
                             int slab) {
    const Buffers<T>& from = in_.buffers;
    const PassSlots slots = from.plan.counts->cuts.SlotsOf(node, item.example);
    const int64_t before =
        item.node == 0 ? 0 : from.plan.work[item.node - 1].forward_slots;
    // Only a tree whose arrays contradict each other has slots past the end.
    if (before + slots.pieces * slots.stride > from.bounds.forward_slots)
      return;
    if (ThreadIndex() < kHotTile) {
      float max = -INFINITY;
      if (ThreadIndex() < item.num_examples) {
        const int64_t slot = before + slots.first + ThreadIndex();
        for (int64_t i = 0; i < slots.pieces; ++i) {
          max = Max(max, from.partial_sums[2 * (slot + i * slots.stride)]);
        }
      }
      terms_[ThreadIndex()] = {Shift(max), 1, 0, 0};
    }
    Sum(node, item, slab);
    float* to = from.partial_rows + item.slot * in_.width + FirstColumn(slab);
    Store(item.num_examples, Columns(slab), in_.width,
          1 / CoefficientScale<Product>::value, to);
  }

  // One slab of dW of a row that is cut, all of them of another.
  TF_HSM_DEVICE void Backward(const DeviceNode& node, const Item& item,
                              int slab, const float* loss_grads,
                              const RowOutput<T>& out) {
    if (item.slot < 0 && slab > 0) return;
    SyncBlock();
    const float most =
        CoefficientScale<Product>::value == 1
            ? 1.0f
            : LargestGrad(loss_grads,
                          in_.buffers.plan.order + node.begin + item.example,
                          item.num_examples, sums_);
    if (ThreadIndex() == 0) {
      most_[0] = most;
      most_[1] = 1 / most;
    }
    do {
      Sum(node, item, slab);
      Store(item.num_rows, Columns(slab), Stride(item),
            most_[0] / CoefficientScale<Product>::value,
            Rows(item) + FirstColumn(slab));
      if (slab == 0) AddThreads(item);
    } while (item.slot < 0 && ++slab < in_.slabs.count);
    if (item.slot >= 0) return;
    SyncBlock();
    const int64_t before =
        out.updates ? 0 : in_.buffers.plan.RowsBefore(item.node);
    const RowSpan<float> rows = {node.first_row + item.row,
                                 before + item.row,
                                 item.num_rows,
                                 Rows(item),
                                 Stride(item),
                                 bias_};
    SubtractShares<Product::kThreads>(in_.buffers, item.node, in_.width, rows);
    EmitRows<Product::kThreads, 8 / Product::kBlocks>(
        out, rows, in_.width,
        reinterpret_cast<RowTerms<float>*>(coefficients_));
    SyncBlock();
  }

 private:
  static constexpr int kSlice = Product::kDepth;
  static constexpr int kStages = Product::kStages;
  static constexpr int kPieces = Product::kPieces;
  static constexpr Depth kDepth = backward ? Depth::kOutside : Depth::kInside;
  static constexpr gpu::Source kSource =
      backward ? gpu::Source::kInputs : gpu::Source::kWeights;
  static constexpr int kSourcePanel =
      PanelSize<Source>(Depth::kOutside, kSlice);
  static constexpr int kPanel = PanelSize<Coefficient>(kDepth, kSlice);
  static constexpr int kStride = PanelStride<Coefficient>(kDepth, kSlice);
  // Examples of a piece, and rows, of a slice of logits; rows are neighbours in
  // memory. A thread has two of them, and every so many examples.
  static constexpr int kExamples = (backward ? kSlice : kHotTile) / kPieces;
  static constexpr int kRows = backward ? kHotTile : kSlice;
  static constexpr int kStep = 2 * Product::kThreads / kRows;
  static constexpr int kOwn = kExamples / kStep;
  // The terms of the backward arrive a slice earlier than they are used.
  static constexpr int kTermStages = 4;
  static constexpr int kTerms = backward ? kTermStages * kSlice : kHotTile;
  static_assert(2 * kPanel * sizeof(Coefficient) >=
                    kHotTile * sizeof(RowTerms<float>),
                "the terms of rows take the place of coefficients");

  TF_HSM_DEVICE int64_t FirstColumn(int slab) const {
    return int64_t{slab} * in_.slabs.columns;
  }
  TF_HSM_DEVICE int Columns(int slab) const {
    return static_cast<int>(
        Smaller<int64_t>(in_.width - FirstColumn(slab), in_.slabs.columns));
  }

  // Where the rows of an item of the backward go: to their slots if they are
  // cut, else where only this block is.
  TF_HSM_DEVICE float* Rows(const Item& item) const {
    return item.slot >= 0
               ? in_.buffers.merge + item.slot * PartStride(in_.width)
               : in_.buffers.block_rows + BlockIndex() * kHotTile * in_.width;
  }
  TF_HSM_DEVICE int64_t Stride(const Item& item) const {
    return item.slot >= 0 ? PartStride(in_.width) : in_.width;
  }

  // Leaves the sums in the product, and in db_ what the thread saw of db.
  TF_HSM_DEVICE void Sum(const DeviceNode& node, const Item& item, int slab) {
    const int count = backward ? item.num_examples : item.num_rows;
    const int slices = static_cast<int>(CeilDivide(count, kSlice));
    const float* const logits =
        in_.buffers.logits + node.logits_offset +
        (item.example + OwnExample()) * node.logits_stride() + item.row +
        OwnRow();
    // Kept, so that the loop does not load the node's stride again.
    const int64_t down = kStep * node.logits_stride();
    product_.Clear();
    for (float& db : db_) db = 0;
    // So that they are not kept from one item to the next.
    for (auto& pair : logits_) pair[0] = pair[1] = 0;
    const auto first_row =
        static_cast<uint32_t>(node.first_row + item.row + OwnRow());
    for (int q = -kStages; q < slices; ++q) {
      WaitForCopies<kStages - 2>();
      SyncBlock();
      const int next = q + kStages - 1;
      if (next >= 0 && next < slices) LoadSource(node, item, slab, next);
      if constexpr (backward) {
        if (q + kStages < slices) LoadTerms(node, item, q + kStages);
      }
      CommitCopies();
      const bool more = q + 1 >= 0 && q + 1 < slices;
      const int done = (q + 1) * kSlice;
      const float* from = logits + (backward ? done / kStep * down : done);
      // In pieces: a thread has no registers for more logits.
      TF_HSM_NO_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        if (more) {
          LoadLogits(from, down,
                     item.num_examples - (backward ? done : 0) -
                         piece * kExamples - OwnExample(),
                     item.num_rows - (backward ? 0 : done) - OwnRow());
          from += kOwn * down;
        }
        if (q >= 0) {
          product_.template Multiply<kDepth, Depth::kOutside, kSource>(
              Panel(q), SourcePanel(q), piece * kSlice / kPieces,
              (piece + 1) * kSlice / kPieces,
              backward ? item.num_rows : item.num_examples, Columns(slab));
        }
        if (more) MakeCoefficients(q + 1, piece, first_row);
      }
    }
    WaitForCopies<0>();
  }

  TF_HSM_DEVICE static int OwnRow() { return ThreadIndex() % (kRows / 2) * 2; }
  TF_HSM_DEVICE static int OwnExample() { return ThreadIndex() / (kRows / 2); }

  TF_HSM_DEVICE Source* SourcePanel(unsigned q) const {
    return source_ + q % kStages * kSourcePanel;
  }
  TF_HSM_DEVICE Coefficient* Panel(unsigned q) const {
    return coefficients_ + q % 2 * kPanel;
  }

  TF_HSM_DEVICE void LoadSource(const DeviceNode& node, const Item& item,
                                int slab, int q) {
    const Source* source;
    int64_t row = int64_t{q} * kSlice;
    if constexpr (backward) {
      source = in_.x;
      row += node.begin + item.example;
    } else {
      source = in_.weights;
      row += node.first_row + item.row;
    }
    LoadPanel<Product::kThreads, kSlice, kHotTile>(
        source + row * in_.width + FirstColumn(slab), in_.width,
        (backward ? item.num_examples : item.num_rows) - q * kSlice,
        Columns(slab), backward ? in_.input_bytes : in_.weight_bytes,
        PanelStride<Source>(Depth::kOutside, kSlice), SourcePanel(q));
  }

  // Starts to load the terms of the examples of slice q of the backward.
  TF_HSM_DEVICE void LoadTerms(const DeviceNode& node, const Item& item,
                               int q) {
    if (ThreadIndex() >= kSlice) return;
    const Buffers<T>& from = in_.buffers;
    const int e = q * kSlice + ThreadIndex();
    CopyTerms(from.pass_terms +
                  from.plan.Pass(node.level, node.begin + item.example + e),
              e < item.num_examples,
              &terms_[q % kTermStages * kSlice + ThreadIndex()]);
  }

  // Loads the logits of a piece, of which so many examples and rows are there;
  // minus infinity, whose exponential is 0, where there are none. HotLogits
  // also stores minus infinity after an odd number of rows.
  TF_HSM_DEVICE void LoadLogits(const float* from, int64_t down, int examples,
                                int rows) {
    const int own = rows > 0 ? examples : 0;
    TF_HSM_UNROLL
    for (int n = 0; n < kOwn; ++n) {
      Neighbours<float, 2> both = {-INFINITY, -INFINITY};
      if (n * kStep < own) both = *InPieces<Neighbours<float, 2>>(from);
      logits_[n][0] = both.values[0];
      logits_[n][1] = both.values[1];
      from += down;
    }
  }

  // `first_row`: the low 32 bits of the tree's row number of the thread's first
  // row.
  TF_HSM_DEVICE void MakeCoefficients(unsigned q, int piece,
                                      uint32_t first_row) {
    constexpr float kScale = CoefficientScale<Product>::value;
    const float scale = backward && kScale != 1 ? kScale * most_[1] : kScale;
    const int e = piece * kExamples + OwnExample();
    const PassTerms<float>* terms =
        terms_ + (backward ? q % kTermStages * kSlice : 0) + e;
    Coefficient* to = Panel(q) + e * kStride + OwnRow();
    TF_HSM_UNROLL
    for (int n = 0; n < kOwn; ++n) {
      float values[2];
      TF_HSM_UNROLL
      for (int i = 0; i < 2; ++i) {
        float value = Product::Exp(logits_[n][i] - terms[n * kStep].max);
        if constexpr (backward) {
          const PassTerms<float> own = terms[n * kStep];
          value = value * own.scale -
                  (first_row + i == own.target ? own.grad : 0.0f);
          db_[i] += value;
        }
        values[i] = value * scale;
      }
      Product::StorePair(values[0], values[1], to + n * kStep * kStride);
    }
  }

  // Makes db of the rows from what the threads saw of it.
  TF_HSM_DEVICE void AddThreads(const Item& item) {
    SyncBlock();
    for (int i = 0; i < 2; ++i) sums_[2 * ThreadIndex() + i] = db_[i];
    SyncBlock();
    if (ThreadIndex() >= item.num_rows) return;
    float db = 0;
    for (int i = ThreadIndex(); i < 2 * Product::kThreads; i += kHotTile) {
      db += sums_[i];
    }
    bias_[ThreadIndex()] = db;
    if (item.slot < 0) return;
    Rows(item)[ThreadIndex() * Stride(item) + in_.width] = bias_[ThreadIndex()];
  }

  TF_HSM_DEVICE void Store(int count_i, int columns, int64_t stride,
                           float factor, float* to) {
    to += Product::Row(0) * stride + Product::Column(0);
    // Counted from the thread's first: its other rows and columns would each
    // take a register all along.
    const int rows = count_i - Product::Row(0);
    const int own = columns - Product::Column(0);
    TF_HSM_UNROLL
    for (int m = 0; m < Product::kRows; ++m) {
      if (m * Product::kRowStep < rows) {
        TF_HSM_UNROLL
        for (int n = 0; n < Product::kColumns; ++n) {
          const int j = Product::ColumnStep(n);
          if (j < own) to[j] = product_.At(m, n) * factor;
        }
      }
      to += Product::kRowStep * stride;
    }
  }

  const HotArguments<Product>& in_;
  Source* source_;             // kStages panels
  Coefficient* coefficients_;  // two panels [examples, rows]
  PassTerms<float>* terms_;    // [kTerms]
  float* sums_;                // [kThreads, 2]
  float* bias_;                // [kHotTile]
  float* most_;                // what dz is divided by, and 1 over that
  float db_[2];
  float logits_[kOwn][2];
  Product product_;
};

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotRows(HotArguments<Product> in) {
  HotSums<Product, false> work(in);
  const DevicePlan& plan = in.buffers.plan;
  for (int64_t i = BlockIndex();
       i < plan.counts->work.forward_items * in.slabs.count; i += NumBlocks()) {
    const Item item = in.buffers.forward_items[i / in.slabs.count];
    if (item.num_examples == 0) continue;
    const DeviceNode& node = plan.nodes[item.node];
    if (!node.IsHot(item)) continue;
    work.Forward(node, item, static_cast<int>(i % in.slabs.count));
  }
}

template <typename Product>
TF_HSM_CROWDED_KERNEL(Product::kThreads, Product::kBlocks)
HotGradients(HotArguments<Product> in, const float* loss_grads,
             RowOutput<typename Product::Weight> out) {
  HotSums<Product, true> work(in);
  const DevicePlan& plan = in.buffers.plan;
  // 32 bits are enough, of hot items, and registers are short.
  const auto count = static_cast<uint32_t>(
      plan.counts->work.hot_backward_items * in.slabs.count);
  for (auto i = static_cast<uint32_t>(BlockIndex()); i < count;
       i += static_cast<uint32_t>(NumBlocks())) {
    const Item& item = in.buffers.backward_items[i / in.slabs.count];
    if (item.num_examples == 0) continue;
    work.Backward(plan.nodes[item.node], item,
                  static_cast<int>(i % in.slabs.count), loss_grads, out);
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_
