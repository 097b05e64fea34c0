// Groups of two rows, as in binary and Huffman trees.
//
// What such a group gives depends on the difference of its rows alone:
//
//   d = w_0 - w_1,   delta = x . d + b_0 - b_1
//   margin = delta where row 0 is on the path, else -delta
//   loss = log(1 + exp(-margin)) = max(-margin, 0) + log(1 + exp(-|margin|))
//   dz_0 = -dz_1 = -1 / (1 + exp(delta)) where row 0 is on the path,
//                   1 / (1 + exp(-delta)) where row 1 is
//   dx = dz_0 d,   dW_0 = -dW_1 = dz_0 x,   db_0 = -db_1 = dz_0
//
// Label smoothing s adds s / 2 margin to the loss, and s / 2 to dz_0 where row
// 0 is on the path, -s / 2 where row 1 is. Towards a prior, s / 2 becomes s
// times the prior of the row that is not on the path.
//
// So there is one product of each kind where a softmax of two has two. In a
// pinned tree (tree_view.h) w_1 and b_1 are zero for ever: nobody keeps them,
// so half as many bytes are read and written. Groups that follow each other
// down the tree with the same examples are a chain: they are taken together, so
// that x and dx are read once for all of them.

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_GROUPS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_GROUPS_INL_H_

#include <cstdint>

#include "cc/core/groups/partial_gradients-inl.h"
#include "cc/core/groups/small/binary_products-inl.h"
#include "cc/core/groups/small/example_block-inl.h"
#include "cc/core/simd/exp_log-inl.h"
#include "cc/core/update/update_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// What the pairs of a group of a chain and an example give, example by example.
template <typename A>
struct ChainPairs {
  A* delta;
  A* sign;  // 1 where row 0 is on the path, else -1
  A* loss;
  A* prob;   // of row 0
  A* dz;     // of row 0
  A* scale;  // 1 / (1 + exp(-|delta|))
  // Where there is a prior: what the target gives the row beside the path.
  A* beside;

  static constexpr int kArrays = 7;

  // The size of each array: whole vectors.
  static int64_t Size(int64_t examples) { return Padded(kMaxChain * examples); }

  ChainPairs(A* memory, int64_t size)
      : delta(memory),
        sign(memory + size),
        loss(memory + 2 * size),
        prob(memory + 3 * size),
        dz(memory + 4 * size),
        scale(memory + 5 * size),
        beside(memory + 6 * size) {}

  // Loss, prob, dz and scale, from delta and sign; `half` the label smoothing.
  void Softmax(int64_t count, A half) const {
    constexpr int lanes = kLanes<A>;
    const Vector<A> zero = {};
    for (int64_t p = 0; p < count; p += lanes) {
      const Vector<A> signs = Load(sign + p);
      const Vector<A> margin = signs * Load(delta + p);
      const Vector<A> small = Exp<A>(margin < 0 ? margin : -margin);
      const Vector<A> inverse = 1 / (1 + small);
      const Vector<A> target = margin < 0 ? small * inverse : inverse;
      const Vector<A> other = margin < 0 ? inverse : small * inverse;
      Vector<A> gap = margin < 0 ? -margin : zero;
      if (half > 0) gap = margin < 0 ? -(1 - half) * margin : half * margin;
      Store(loss + p, gap + Log<A>(1 + small));
      Store(prob + p, signs > 0 ? target : other);
      Store(dz + p, -signs * (other - half));
      Store(scale + p, inverse);
    }
  }

  // Adds label smoothing towards a prior to what Softmax made without. A margin
  // that has no share may be infinite.
  void Smooth(int64_t count) const {
    const Vector<A> zero = {};
    for (int64_t p = 0; p < count; p += kLanes<A>) {
      const Vector<A> signs = Load(sign + p), share = Load(beside + p);
      const Vector<A> margin = signs * Load(delta + p);
      const Vector<A> above = share > 0 ? share * margin : zero;
      const Vector<A> below = share < 1 ? (share - 1) * margin : zero;
      Store(loss + p, (margin < 0 ? below : above) - Log<A>(Load(scale + p)));
      Store(dz + p, Load(dz + p) + signs * share);
    }
  }
};

// The groups of two rows of one block.
template <typename T, bool pinned>
class BinaryGroups {
 public:
  using A = Accumulator<T>;

  // Memory of a block of `examples`, in accumulators.
  static int64_t ScratchSize(int64_t examples, int64_t width) {
    return ChainPairs<A>::kArrays * ChainPairs<A>::Size(examples) +
           kMaxChain * width;
  }

  BinaryGroups(ExampleBlock<T>* block, A* scratch)
      : block_(*block),
        problem_(block->problem),
        pairs_(scratch, ChainPairs<A>::Size(block->end - block->begin)),
        dw_(scratch + ChainPairs<A>::kArrays *
                          ChainPairs<A>::Size(block->end - block->begin)) {}

  void Add(const Node& node) {
    const int64_t first = block_.First(node), examples = block_.Count(node);
    if (length_ == kMaxChain || first != first_ || examples != examples_ ||
        (length_ > 0 && !AreOfOneKind(*chain_[0], node))) {
      Flush();
    }
    first_ = first;
    examples_ = examples;
    chain_[length_++] = &node;
  }

  // Ends the chain.
  void Flush() {
    int done = 0;
    auto part = [&](auto count) __attribute__((always_inline)) {
      constexpr int nodes = decltype(count)::value;
      for (; done + nodes <= length_; done += nodes) {
        Finish<nodes>(chain_ + done);
      }
    };
    if constexpr (kMaxChain >= 4) part(IntConstant<4>());
    part(IntConstant<2>());
    part(IntConstant<1>());
    length_ = 0;
  }

 private:
  // Whether the same becomes of two groups' gradients.
  bool AreOfOneKind(const Node& a, const Node& b) const {
    return block_.Updates(a) == block_.Updates(b) &&
           a.has_partials() == b.has_partials();
  }

  template <int nodes>
  void Finish(const Node* const* chain) {
    const int64_t width = problem_.width;
    const Matrix<const A> x = block_.X(first_);
    const T* rows[nodes];
    for (int i = 0; i < nodes; ++i) {
      rows[i] = problem_.weights + FirstRow(*chain[i]) * width;
      FillSigns(*chain[i], pairs_.sign + i, nodes);
    }
    Deltas<T, pinned, nodes>(rows, x, examples_, width, block_.prefetcher,
                             pairs_.delta);
    AddBiases<nodes>(chain);
    const bool to_prior = problem_.smoothing_prior != nullptr;
    pairs_.Softmax(nodes * examples_,
                   to_prior ? 0 : problem_.label_smoothing / 2);
    if (to_prior) {
      for (int i = 0; i < nodes; ++i) FillBeside(*chain[i], i, nodes);
      pairs_.Smooth(nodes * examples_);
    }
    block_.PrefetchNext();
    A* loss = block_.Loss(first_);
    for (int64_t m = 0; m < examples_; ++m) {
      for (int i = 0; i < nodes; ++i) loss[m] += pairs_.loss[m * nodes + i];
    }
    auto add_dx = [&] {
      AddChainDx<T, pinned, nodes>(rows, pairs_.dz, examples_, width,
                                   block_.DxRows(first_));
    };
    if (block_.MakesDx() && !block_.adds_to_sums) add_dx();
    const bool updates = block_.Updates(*chain[0]);
    if (!updates && !chain[0]->has_partials()) {
      for (int i = 0; i < nodes; ++i) Keep(*chain[i], i, nodes);
      return;
    }
    const A* grads = block_.step->loss_grads + first_;
    A db[nodes] = {};  // of row 0
    for (int64_t m = 0; m < examples_; ++m) {
      for (int i = 0; i < nodes; ++i) {
        db[i] += pairs_.dz[m * nodes + i] *= grads[m];
      }
    }
    if (block_.adds_to_sums) add_dx();
    updates ? UpdateChain<nodes>(chain, x, db)
            : AddPartials<nodes>(chain, x, db);
  }

  // The group's rows of the parameters, and the first of them.
  static constexpr int kRows = pinned ? 1 : 2;
  static int64_t FirstRow(const Node& node) {
    return pinned ? node.first_row / 2 : node.first_row;
  }

  // sign[m * stride] of the chain's m-th example.
  void FillSigns(const Node& node, A* sign, int64_t stride) const {
    ForTargets(*problem_.plan, node, first_, first_ + examples_,
               [&](int64_t at, int64_t target) {
                 sign[(at - first_) * stride] = target == 0 ? 1 : -1;
               });
  }

  // pairs_.beside of the chain's i-th group. The prior of its first row says
  // that of the second.
  void FillBeside(const Node& node, int i, int nodes) const {
    const A s = problem_.label_smoothing, share = *problem_.Prior(node);
    for (int64_t p = i; p < nodes * examples_; p += nodes) {
      pairs_.beside[p] = s * (pairs_.sign[p] > 0 ? 1 - share : share);
    }
  }

  // The logit of one row of a group for one example.
  A Logit(const Node& node, int64_t k, int64_t at) const {
    if (pinned && k == 1) return 0;
    const int64_t row = FirstRow(node) + k;
    const A z = Dot<T>(problem_.weights + row * problem_.width,
                       block_.X(at).data, problem_.width);
    return problem_.biases == nullptr ? z : z + Bias(row);
  }

  A Bias(int64_t row) const { return LoadPartial(problem_.biases + row, 1)[0]; }

  // Adds b_0 - b_1. Deltas that are not finite are made again from logits: NaN
  // where one of these is NaN or plus infinity.
  template <int nodes>
  void AddBiases(const Node* const* chain) {
    const int64_t count = nodes * examples_;
    for (int i = 0; i < nodes && problem_.biases != nullptr; ++i) {
      const int64_t row = FirstRow(*chain[i]);
      const A bias = pinned ? Bias(row) : Bias(row) - Bias(row + 1);
      for (int64_t p = i; p < count; p += nodes) pairs_.delta[p] += bias;
    }
    Vector<A> check = {};
    for (int64_t p = 0; p < count; p += kLanes<A>) {
      const int64_t left = count - p;
      const Vector<A> delta = left < kLanes<A>
                                  ? LoadPartial(pairs_.delta + p, left)
                                  : Load(pairs_.delta + p);
      check += delta - delta;
    }
    if (SumLanes<A>(check) == 0) return;
    const A infinity = static_cast<A>(__builtin_inf());
    for (int64_t p = 0; p < count; ++p) {
      A& delta = pairs_.delta[p];
      if (delta - delta == 0) continue;
      const Node& node = *chain[p % nodes];
      const A z_0 = Logit(node, 0, first_ + p / nodes);
      const A z_1 = Logit(node, 1, first_ + p / nodes);
      delta = z_0 < infinity && z_1 < infinity
                  ? z_0 - z_1
                  : static_cast<A>(__builtin_nan(""));
    }
  }

  // Keeps what the backward reads of the chain's i-th group: the probabilities,
  // or what it makes them from.
  void Keep(const Node& node, int i, int nodes) const {
    const int64_t pass = first_ - node.begin;
    if (block_.out.probs != nullptr) {
      A* to = block_.out.probs + node.prob_offset + 2 * pass;
      for (int64_t m = 0; m < examples_; ++m) {
        const int64_t p = m * nodes + i;
        const A sign = pairs_.sign[p];
        const A beside = problem_.smoothing_prior == nullptr
                             ? problem_.label_smoothing / 2
                             : pairs_.beside[p];
        const A dz = pairs_.dz[p] - sign * beside;
        to[2 * m] = pairs_.prob[p];
        to[2 * m + 1] = sign > 0 ? -dz : 1 - dz;
      }
    } else if (block_.out.normalizers != nullptr) {
      A* to = block_.out.normalizers + 2 * (node.pass_offset + pass);
      for (int64_t m = 0; m < examples_; ++m) {
        // The larger logit, to the bit as the backward makes it again.
        const A delta = pairs_.delta[m * nodes + i];
        to[2 * m] = Logit(node, delta < 0, first_ + m);
        to[2 * m + 1] = pairs_.scale[m * nodes + i];
      }
    }
  }

  template <int nodes>
  void AddPartials(const Node* const* chain, Matrix<const A> x, const A* db) {
    const int64_t width = problem_.width;
    A* gradients[nodes];
    for (int i = 0; i < nodes; ++i) {
      gradients[i] = block_.Partial(*chain[i]);
      if (block_.BeginsPartial(*chain[i])) {
        __builtin_memset(gradients[i], 0, PartialStride(width) * sizeof(A));
      }
      gradients[i][width] += db[i];
    }
    ChainGradient<T, pinned, nodes, Gradient::kAdd>(
        nullptr, nullptr, pairs_.dz, x, examples_, width, gradients);
    for (int i = 0; i < nodes; ++i) {
      if (!block_.EndsPartials(*chain[i])) continue;
      UpdateByPartials(*problem_.plan, *chain[i], width, *block_.step);
    }
  }

  template <int nodes>
  void UpdateChain(const Node* const* chain, Matrix<const A> x, const A* db) {
    const Update<T>& update = *block_.step->update;
    const int64_t width = problem_.width;
    T* rows[nodes];
    A* gradients[nodes];
    for (int i = 0; i < nodes; ++i) {
      rows[i] = update.weights + FirstRow(*chain[i]) * width;
      gradients[i] = dw_ + i * width;
    }
    const bool scaled = IsScaledGradient(update, examples_);
    if constexpr (sizeof(T) == sizeof(A)) {
      if (scaled) {
        A rates[kRows * nodes];
        const A square = InputSquare(update, x.data, width);
        for (int i = 0; i < nodes; ++i) {
          FillRates(update, FirstRow(*chain[i]), kRows, square, pairs_.dz + i,
                    0, rates + kRows * i);
        }
        ChainGradient<T, pinned, nodes, Gradient::kApply>(
            rows, rates, pairs_.dz, x, examples_, width, nullptr);
      }
    }
    if (!scaled) {
      ChainGradient<T, pinned, nodes, Gradient::kWrite>(
          nullptr, nullptr, pairs_.dz, x, examples_, width, gradients);
    }
    for (int i = 0; i < nodes; ++i) {
      const int64_t row = FirstRow(*chain[i]);
      if (!scaled && pinned) UpdateWeights(update, row, 1, width, gradients[i]);
      if (!scaled && !pinned) UpdatePair(update, row, width, gradients[i]);
      const A both[] = {db[i], -db[i]};
      UpdateBiases(update, row, kRows, both);
    }
  }

  ExampleBlock<T>& block_;
  const Problem<T>& problem_;
  const ChainPairs<A> pairs_;
  A* const dw_;  // of row 0 of each group: [kMaxChain, width]
  const Node* chain_[kMaxChain];
  int length_ = 0;
  int64_t first_ = 0, examples_ = 0;  // of the chain, in sorted order
};

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_BINARY_GROUPS_INL_H_
