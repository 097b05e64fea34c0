// dx, dW and db at hot groups, from the logits that hot_logits.h left.
//
//   forward:   v [e, :] = sum over rows r of  exp(z [e, r] - m [e]) w [r, :]
//   backward:  dW [r, :] = sum over examples e of  dz [e, r] x [e, :]
//   dz = g (exp(z - m) / s - [row is on the path]);   db = sum of dz
//
// where a soft cap multiplies the terms of v, and dz, by its slope at z, and a
// z-loss scales the first term of dz (PassTerms).
//
// Both are sums over k of coefficients [k, i] times a source [k, columns]: for
// kSumRows examples or rows i and up to kSumColumns columns of the product,
// what a block does for one part of an item and slab of columns. Slices of the
// source stream through shared memory; the logits of the next slice are on
// their way to registers while this one is used, and become coefficients after
// it. A group that is cut leaves parts, added in order by path.h (rows) and
// MergeRows (examples). Where rows are not cut, a block makes all slabs of them
// and then gives them out.
//
// Bytes: the logits once per slab, the source once per part, from the second
// cache. FLOPs: 2 per weight and example, and an exponential per slab.

#ifndef TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_
#define TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cc/cuda/loss/hot/hot_product.h"
#include "cc/cuda/tile/largest_grad.h"
#include "cc/cuda/tile/node_sums.h"
#include "cc/cuda/tile/row_output.h"
#include "cc/cuda/tile/tile.h"

namespace tf_hsm::gpu {

template <typename Product, bool backward>
class HotSums {
 public:
  using T = typename Product::Weight;
  using Source = std::conditional_t<backward, typename Product::Input, T>;
  using Coefficient = typename Product::Coefficient;

  TF_HSM_DEVICE explicit HotSums(const HotArguments<Product>& in) : in_(in) {
    // Columns that no copy reaches are multiplied too, for sums of no use.
    Source* const all = Block().source[0];
    for (int i = ThreadIndex(); i < kStages * kSlice * kSourceStride;
         i += Product::kThreads) {
      all[i] = Source{};
    }
  }

  static constexpr int64_t SharedBytes() { return sizeof(Shared); }
  static constexpr int kParts = kHotTile / Product::kSumRows;  // of an item

  // Takes part `part` of an item. False if that has nothing to do.
  TF_HSM_DEVICE bool Take(const Item& all, int part) {
    Item item = all;
    const int done = part * kMostI;
    if (item.slot >= 0) item.slot += done;
    if constexpr (backward) {
      item.row += done;
      item.num_rows -= done;
    } else {
      item.example += done;
      item.num_examples -= done;
    }
    if (item.num_examples <= 0 || item.num_rows <= 0) return false;
    (backward ? item.num_rows : item.num_examples) =
        Smaller(backward ? item.num_rows : item.num_examples, kMostI);
    const DeviceNode& node = in_.buffers.plan.nodes[item.node];
    if (!node.IsHot(item)) return false;
    SyncBlock();  // nobody reads the part before
    if (ThreadIndex() == 0) {
      Block().item = item;
      Block().node = node;
    }
    SyncBlock();
    return true;
  }

  // One slab of v.
  TF_HSM_DEVICE void Forward(int slab) {
    const Buffers<T>& from = in_.buffers;
    const Item& item = Block().item;
    const PassSlots slots =
        from.plan.counts->cuts.SlotsOf(Block().node, item.example);
    const int64_t before =
        item.node == 0 ? 0 : from.plan.work[item.node - 1].forward_slots;
    // Only a tree whose arrays contradict each other has slots past the end.
    if (before + slots.pieces * slots.stride > from.bounds.forward_slots)
      return;
    if (ThreadIndex() < kMostI) {
      float max = -INFINITY;
      if (ThreadIndex() < item.num_examples) {
        const int64_t slot = before + slots.first + ThreadIndex();
        for (int64_t i = 0; i < slots.pieces; ++i) {
          max = Max(max, from.partial_sums[2 * (slot + i * slots.stride)]);
        }
      }
      Block().terms[ThreadIndex()] = {Shift(max), 1, 0, 0};
    }
    Sum(slab);
    Store(item.num_examples, in_.width, 1 / CoefficientScale<Product>::value,
          from.partial_rows + item.slot * in_.width + FirstColumn(slab));
  }

  // One slab of dW of a row that is cut, all of them of another.
  TF_HSM_DEVICE void Backward(int slab, const RowOutput<T>& out) {
    const Item& item = Block().item;
    const DeviceNode& node = Block().node;
    if (item.slot < 0 && slab > 0) return;
    const Buffers<T>& from = in_.buffers;
    const float most =
        CoefficientScale<Product>::value == 1
            ? 1.0f
            : LargestGrad(
                  from.pass_terms +
                      from.plan.Pass(node.level, node.begin + item.example),
                  item.num_examples, Block().sums);
    if (ThreadIndex() == 0) {
      Block().most = most;
      Block().one_over_most = 1 / most;
    }
    do {
      Sum(slab);
      Store(item.num_rows, Stride(),
            Block().most / CoefficientScale<Product>::value,
            Rows() + FirstColumn(slab));
      if (slab == 0) AddThreads();
      SyncBlock();  // the next slab changes what Store reads
    } while (item.slot < 0 && ++slab < in_.slabs.count);
    if (item.slot >= 0) return;
    const int64_t before =
        out.updates ? 0 : in_.buffers.plan.RowsBefore(item.node);
    const RowSpan<float> rows = {node.first_row + item.row,
                                 before + item.row,
                                 item.num_rows,
                                 Rows(),
                                 Stride(),
                                 Block().bias};
    SubtractShares<Product::kThreads>(in_.buffers, item.node, in_.width, rows);
    EmitRows<Product::kThreads, 8 / Product::kBlocks>(
        out, rows, in_.width,
        reinterpret_cast<RowTerms<float>*>(Block().coefficients));
  }

 private:
  static constexpr int kMostI = Product::kSumRows;  // of a part
  static constexpr int kSlice = Product::kDepth;
  static constexpr int kStages = Product::kStages;
  static constexpr int kPieces = Product::kPieces;
  static constexpr Depth kDepth = backward ? Depth::kOutside : Depth::kInside;
  static constexpr gpu::Source kSource =
      backward ? gpu::Source::kInputs : gpu::Source::kWeights;
  static constexpr int kSourceStride =
      PanelStride<Source>(Depth::kOutside, kSlice, Product::kSumColumns);
  static constexpr int kStride =
      PanelStride<Coefficient>(kDepth, kSlice, kMostI);
  // Examples of a piece, and rows, of a slice of logits; rows are neighbours in
  // memory. A thread has two of them, and every so many examples.
  static constexpr int kExamples = (backward ? kSlice : kMostI) / kPieces;
  static constexpr int kRows = backward ? kMostI : kSlice;
  static constexpr int kStep = 2 * Product::kThreads / kRows;
  static constexpr int kOwn = kExamples / kStep;
  // The terms of the backward arrive a slice earlier than they are used.
  static constexpr int kTermStages = 4;
  static constexpr int kTerms = backward ? kTermStages * kSlice : kMostI;

  // What a thread needs in each slice is here and not in its registers, which
  // the sums fill: memory of a thread's own is farther away.
  struct alignas(16) Shared {
    Source source[kStages][kSlice * kSourceStride];
    Coefficient coefficients[2][PanelSize<Coefficient>(kDepth, kSlice, kMostI)];
    PassTerms<float> terms[kTerms];
    float sums[2 * Product::kThreads];
    float bias[kMostI];
    float most, one_over_most;  // what dz is divided by
    Item item;                  // a part of one
    DeviceNode node;
    const Source* first_source;  // of the slab
    const PassTerms<float>* first_terms;
    const float* first_logits;
    int64_t logits_stride;
    int columns;         // of the slab
    int count;           // along k
    uint32_t first_row;  // low bits of its number in the tree
  };
  static_assert(sizeof(Shared::coefficients) >=
                    kMostI * sizeof(RowTerms<float>),
                "the terms of rows take the place of coefficients");
  // At one address, so that it takes no register.
  TF_HSM_DEVICE static Shared& Block() {
    return *reinterpret_cast<Shared*>(SharedMemory());
  }

  TF_HSM_DEVICE int64_t FirstColumn(int slab) const {
    return int64_t{slab} * in_.slabs.columns;
  }

  // Where the rows of an item of the backward go: to their slots if they are
  // cut, else where only this block is.
  TF_HSM_DEVICE float* Rows() const {
    const int64_t slot = Block().item.slot;
    return slot >= 0
               ? in_.buffers.merge + slot * PartStride(in_.width)
               : in_.buffers.block_rows + BlockIndex() * kHotTile * in_.width;
  }
  TF_HSM_DEVICE int64_t Stride() const {
    return Block().item.slot >= 0 ? PartStride(in_.width) : in_.width;
  }

  TF_HSM_DEVICE void Prepare(int slab) const {
    const Item& item = Block().item;
    const DeviceNode& node = Block().node;
    const Buffers<T>& from = in_.buffers;
    const int64_t first = node.begin + item.example;
    const int64_t first_row = node.first_row + item.row;
    if constexpr (backward) {
      Block().first_source = in_.x + first * in_.width + FirstColumn(slab);
    } else {
      Block().first_source =
          in_.weights + first_row * in_.width + FirstColumn(slab);
    }
    Block().first_terms = from.pass_terms + from.plan.Pass(node.level, first);
    Block().first_logits = from.logits + node.logits_offset +
                           item.example * node.logits_stride() + item.row;
    Block().logits_stride = node.logits_stride();
    Block().columns = static_cast<int>(
        Smaller<int64_t>(in_.width - FirstColumn(slab), in_.slabs.columns));
    Block().count = backward ? item.num_examples : item.num_rows;
    Block().first_row = static_cast<uint32_t>(first_row);
  }

  // Leaves the sums in the product, and in db_ what the thread saw of db.
  TF_HSM_DEVICE void Sum(int slab) {
    if (ThreadIndex() == 0) Prepare(slab);
    product_.Clear();
    for (float& db : db_) db = 0;
    // So that they are not kept from one item to the next.
    for (auto& pair : logits_) pair[0] = pair[1] = 0;
    SyncBlock();
    for (int q = -kStages; q * kSlice < Block().count; ++q) {
      WaitForCopies<kStages - 2>();
      SyncBlock();
      LoadSource(q + kStages - 1);
      if constexpr (backward) LoadTerms(q + kStages);
      CommitCopies();
      const int done = (q + 1) * kSlice;
      const bool more = done >= 0 && done < Block().count;
      // In pieces: a thread has no registers for more logits.
      TF_HSM_NO_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        if (more) LoadLogits(done, piece * kExamples);
        if (q >= 0) {
          product_.template MultiplySums<kDepth, kSource>(
              Panel(q), SourcePanel(q), piece * kSlice / kPieces,
              (piece + 1) * kSlice / kPieces,
              backward ? Block().item.num_rows : Block().item.num_examples,
              Block().columns, in_.slabs.columns);
        }
        if (more) MakeCoefficients(q + 1, piece * kExamples);
      }
    }
    WaitForCopies<0>();
  }

  TF_HSM_DEVICE static int OwnRow() { return ThreadIndex() % (kRows / 2) * 2; }
  TF_HSM_DEVICE static int OwnExample() { return ThreadIndex() / (kRows / 2); }

  TF_HSM_DEVICE static Source* SourcePanel(unsigned q) {
    return Block().source[q % kStages];
  }
  TF_HSM_DEVICE static Coefficient* Panel(unsigned q) {
    return Block().coefficients[q % 2];
  }

  // Starts to load slice q of the source, if there is one.
  TF_HSM_DEVICE void LoadSource(int q) const {
    const int done = q * kSlice, left = Block().count - done;
    if (q < 0 || left <= 0) return;
    LoadTile(Block().first_source + done * in_.width, in_.width, left,
             Block().columns, backward ? in_.input_bytes : in_.weight_bytes,
             kSlice, kSourceStride, SourcePanel(q));
  }

  // Starts to load the terms of the examples of slice q of the backward.
  TF_HSM_DEVICE void LoadTerms(int q) const {
    if (ThreadIndex() >= kSlice) return;
    const int e = q * kSlice + ThreadIndex();
    CopyTerms(Block().first_terms + e, e < Block().count,
              &Block().terms[q % kTermStages * kSlice + ThreadIndex()]);
  }

  // Loads the logits of a piece of the slice that begins at `done` along k;
  // minus infinity, whose exponential is 0, where there are none. HotLogits
  // also stores minus infinity after an odd number of rows.
  TF_HSM_DEVICE void LoadLogits(int done, int first_example) {
    const int e = (backward ? done : 0) + first_example + OwnExample();
    const int row = (backward ? 0 : done) + OwnRow();
    const int64_t stride = Block().logits_stride;
    const float* from = Block().first_logits + e * stride + row;
    const Item& item = Block().item;
    const int own = row < item.num_rows ? item.num_examples - e : 0;
    TF_HSM_UNROLL
    for (int n = 0; n < kOwn; ++n) {
      Neighbours<float, 2> both = {-INFINITY, -INFINITY};
      if (n * kStep < own) both = *InPieces<Neighbours<float, 2>>(from);
      logits_[n][0] = both.values[0];
      logits_[n][1] = both.values[1];
      from += kStep * stride;
    }
  }

  TF_HSM_DEVICE void MakeCoefficients(unsigned q, int first_example) {
    constexpr float kScale = CoefficientScale<Product>::value;
    const float scale =
        backward && kScale != 1 ? kScale * Block().one_over_most : kScale;
    const uint32_t row = Block().first_row + static_cast<uint32_t>(OwnRow());
    const int e = first_example + OwnExample();
    const PassTerms<float>* terms =
        Block().terms + (backward ? q % kTermStages * kSlice : 0) + e;
    Coefficient* to = Panel(q) + e * kStride + OwnRow();
    TF_HSM_UNROLL
    for (int n = 0; n < kOwn; ++n) {
      float values[2];
      TF_HSM_UNROLL
      for (int i = 0; i < 2; ++i) {
        float value = Product::Exp(logits_[n][i] - terms[n * kStep].max);
        if constexpr (backward) {
          const PassTerms<float> own = terms[n * kStep];
          value = value * own.scale - (row + i == own.target ? own.grad : 0.0f);
        }
        value *= in_.buffers.soft_cap.Slope(logits_[n][i]);
        if constexpr (backward) db_[i] += value;
        values[i] = value * scale;
      }
      Product::StorePair(values[0], values[1], to + n * kStep * kStride);
    }
  }

  // Makes db of the rows from what the threads saw of it.
  TF_HSM_DEVICE void AddThreads() {
    const Item& item = Block().item;
    float* const sums = Block().sums;
    SyncBlock();
    for (int i = 0; i < 2; ++i) sums[2 * ThreadIndex() + i] = db_[i];
    SyncBlock();
    if (ThreadIndex() >= item.num_rows) return;
    float db = 0;
    for (int i = ThreadIndex(); i < 2 * Product::kThreads; i += kMostI) {
      db += sums[i];
    }
    Block().bias[ThreadIndex()] = db;
    if (item.slot >= 0) Rows()[ThreadIndex() * Stride() + in_.width] = db;
  }

  TF_HSM_DEVICE void Store(int count_i, int64_t stride, float factor,
                           float* to) {
    const int first = Product::FirstColumn(in_.slabs.columns);
    to += Product::Row(0) * stride + first;
    // Counted from the thread's first: its other rows and columns would each
    // take a register all along.
    const int rows = count_i - Product::Row(0);
    const int own =
        Smaller(Block().columns, Product::EndColumn(in_.slabs.columns)) - first;
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
  float db_[2];
  float logits_[kOwn][2];
  Product product_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_HOT_HOT_SUMS_H_
