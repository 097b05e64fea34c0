// Groups of few rows, as in binary and Huffman trees, for a span of examples,
// block after block.
//
// The examples of a block are neighbours in depth-first order, so that they
// share most of their paths: a node's rows are read once for all of the block's
// examples that pass it. Groups of two rows have binary_groups-inl.h. Others
// are taken in batches: first all their logits; then the softmaxes of all pairs
// of a node and an example, side by side in the lanes of vectors; then dx, and
// in a training step the update, while the rows are still in the cache. Costs
// one read of the rows (and one write in a step) and 4 FLOP per number, row and
// example, 6 in a step; for two rows half as many.

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_SMALL_GROUPS_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_SMALL_GROUPS_INL_H_

#include <cstdint>

#include "cc/core/groups/problem.h"
#include "cc/core/groups/small/binary_groups-inl.h"
#include "cc/core/groups/small/example_block-inl.h"
#include "cc/core/groups/small/pair_batch-inl.h"
#include "cc/core/simd/softmax-inl.h"
#include "cc/core/simd/tile-inl.h"
#include "cc/core/update/update_rows-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// The groups of one block that do not have two rows.
template <typename T>
class SoftmaxGroups {
 public:
  using A = Accumulator<T>;

  // Memory, in accumulators.
  static int64_t ScratchSize(int64_t width) { return kMaxSmallFanout * width; }

  SoftmaxGroups(ExampleBlock<T>* block, A* scratch)
      : block_(*block),
        problem_(block->problem),
        dw_{scratch, block->problem.width} {}

  void Add(const Node& node) {
    const int64_t first = block_.First(node), count = block_.Count(node);
    if (!batch_.HasRoom(count)) Flush();
    const int pair = batch_.num_pairs;
    batch_.parts[batch_.num_parts++] = {&node, first, static_cast<int>(count),
                                        pair};
    batch_.num_pairs += static_cast<int>(count);
    if (node.fanout > batch_.most_rows) {
      batch_.most_rows = static_cast<int>(node.fanout);
    }
    FillTargets(*problem_.plan, node, first, first + count,
                batch_.targets + pair);
    SmallLogits<T>(Weights(node), node.fanout,
                   problem_.biases ? problem_.biases + node.first_row : nullptr,
                   block_.X(first), count, problem_.width, block_.prefetcher,
                   {batch_.z[0] + pair, batch_.kPairs});
  }

  // Ends the batch.
  void Flush() {
    batch_.Softmax(problem_);
    for (int i = 0; i < batch_.num_parts; ++i) Finish(batch_.parts[i]);
    batch_.Clear();
  }

 private:
  using Part = typename PairBatch<T>::Part;

  Matrix<const T> Weights(const Node& node) const {
    return {problem_.weights + node.first_row * problem_.width, problem_.width};
  }

  void Finish(const Part& part) {
    const Node& node = *part.node;
    const ForwardOutputs<T>& out = block_.out;
    const int64_t rows = node.fanout;
    block_.PrefetchNext();
    A* loss = block_.Loss(part.first_example);
    for (int m = 0; m < part.num_examples; ++m) {
      loss[m] += batch_.loss[part.first_pair + m];
    }
    const bool updates = block_.Updates(node);
    const int64_t pass = part.first_example - node.begin;
    if (!updates && out.normalizers != nullptr) {
      A* to = out.normalizers + 2 * (node.pass_offset + pass);
      for (int m = 0; m < part.num_examples; ++m) {
        to[2 * m] = batch_.max[part.first_pair + m];
        to[2 * m + 1] = batch_.scale[part.first_pair + m];
      }
    }
    if (!updates && out.probs != nullptr) {
      A* to = out.probs + node.prob_offset + pass * rows;
      for (int m = 0; m < part.num_examples; ++m) {
        for (int64_t k = 0; k < rows; ++k) {
          to[m * rows + k] = batch_.z[k][part.first_pair + m];
        }
      }
    }
    if (!updates && !block_.MakesDx()) return;
    const A smoothing = problem_.Smoothing(node), share = smoothing / rows;
    const float* prior = problem_.Prior(node);
    for (int m = 0; m < part.num_examples; ++m) {
      const int pair = part.first_pair + m;
      batch_.z[batch_.targets[pair]][pair] -= 1 - smoothing;
      for (int64_t k = 0; k < rows && share > 0; ++k) {
        batch_.z[k][pair] -= prior == nullptr ? share : smoothing * prior[k];
      }
    }
    if (block_.MakesDx()) {
      Outer<T, true>(
          Strided<A>{batch_.z[0] + part.first_pair, 1, batch_.kPairs},
          part.num_examples, rows, Weights(node), problem_.width,
          block_.Dx(part.first_example));
    }
    if (updates) UpdateNode(part);
  }

  void UpdateNode(const Part& part) {
    const Update<T>& update = *block_.step->update;
    const Node& node = *part.node;
    const int64_t rows = node.fanout, width = problem_.width;
    const Matrix<A> dz = {batch_.z[0] + part.first_pair, batch_.kPairs};
    const A* grads = block_.step->loss_grads + part.first_example;
    A db[kMaxSmallFanout];
    for (int64_t k = 0; k < rows; ++k) {
      A sum = 0;
      for (int m = 0; m < part.num_examples; ++m) {
        sum += dz.row(k)[m] *= grads[m];
      }
      db[k] = sum;
    }
    const Matrix<const A> x = block_.X(part.first_example);
    const Strided<A> factors = {dz.data, dz.stride, 1};
    if constexpr (sizeof(T) == sizeof(A)) {
      if (IsScaledGradient(update, part.num_examples)) {
        ScaleByRates(update, node.first_row, rows, part.num_examples, x.data,
                     width, dz.data, dz.stride, 1);
        Outer<A, true>(factors, rows, part.num_examples, x, width,
                       {update.weights + node.first_row * width, width});
        UpdateBiases(update, node.first_row, rows, db);
        return;
      }
    }
    Outer<A, false>(factors, rows, part.num_examples, x, width, dw_);
    UpdateWeights(update, node.first_row, rows, width, dw_.data);
    UpdateBiases(update, node.first_row, rows, db);
  }

  ExampleBlock<T>& block_;
  const Problem<T>& problem_;
  const Matrix<A> dw_;  // of one node
  PairBatch<T> batch_;
};

// The memory of a block, in accumulators, and where its parts begin.
template <typename T>
struct SmallScratch {
  SmallScratch(int64_t examples, int64_t width)
      : of_block(ExampleBlock<T>::ScratchSize(examples, width)),
        of_binary(BinaryGroups<T, false>::ScratchSize(examples, width)),
        total(of_block + of_binary + SoftmaxGroups<T>::ScratchSize(width)) {}

  const int64_t of_block, of_binary, total;
};

// Reserves the scratch of a block of `examples`.
template <typename T>
Accumulator<T>* ReserveSmall(int64_t examples, int64_t width) {
  return Scratch<Accumulator<T>>(SmallScratch<T>(examples, width).total);
}

// Calls add(node) for the small groups on the paths of the block's examples:
// those that began before the block, and then those of the nodes from `first`
// on, in the order in which the prefetcher has them. Returns the first node
// past the block.
template <typename T, typename Add>
int64_t ForSmallGroups(const Plan& plan, int64_t first,
                       const ExampleBlock<T>& block, const Add& add) {
  const int64_t num_nodes = static_cast<int64_t>(plan.nodes.size());
  // The nodes that began before, from the leaf of the first example upwards.
  for (int64_t i = plan.leaf_node[block.begin]; i >= 0;
       i = plan.nodes[i].parent) {
    const Node& node = plan.nodes[i];
    if (node.begin < block.begin && node.fanout <= kMaxSmallFanout) add(node);
  }
  int64_t i = first;
  for (; i < num_nodes && plan.nodes[i].begin < block.end; ++i) {
    const Node& node = plan.nodes[i];
    if (node.fanout > kMaxSmallFanout) continue;
    add(node);
    block.prefetcher->Used(node);
  }
  return i;
}

// Updates the vectors of the span [begin, end) whose sums are whole.
template <typename T>
void UpdateWholeSums(const VectorInputs<T>& vectors, int64_t begin, int64_t end,
                     int64_t width) {
  const int64_t stride = Padded(width);
  for (int64_t i = vectors.Start(begin); i < vectors.Start(end); ++i) {
    const VectorPlan::Vector& vector = vectors.plan->vectors[i];
    if (!vector.is_whole || !vector.is_first) continue;
    UpdateWeights(*vectors.update, vector.row, 1, width,
                  vectors.sums + vector.sum * stride);
  }
}

// See kernel_table.h.
template <typename T>
void SmallGroups(const Problem<T>& problem, int64_t begin, int64_t end,
                 const ForwardOutputs<T>& out,
                 const BackwardArguments<T>* step) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  // Depth-first: the nodes are in the order of their first example.
  int64_t first = 0, past = static_cast<int64_t>(plan.nodes.size());
  while (first < past) {
    const int64_t middle = first + (past - first) / 2;
    plan.nodes[middle].begin < begin ? first = middle + 1 : past = middle;
  }
  const int64_t most =
      end - begin < kBlockExamples ? end - begin : kBlockExamples;
  A* scratch = ReserveSmall<T>(most, problem.width);
  RowPrefetcher<T> prefetcher(problem, first, end);
  for (int64_t at = begin; at < end; at += kBlockExamples) {
    const int64_t past_block =
        end - at < kBlockExamples ? end : at + kBlockExamples;
    const SmallScratch<T> parts(past_block - at, problem.width);
    A* of_binary = scratch + parts.of_block;
    ExampleBlock<T> block(problem, at, past_block, out, step, &prefetcher,
                          scratch);
    if (plan.pinned) {
      BinaryGroups<T, true> binary(&block, of_binary);
      first = ForSmallGroups(plan, first, block,
                             [&](const Node& node) { binary.Add(node); });
      binary.Flush();
    } else {
      BinaryGroups<T, false> binary(&block, of_binary);
      SoftmaxGroups<T> others(&block, of_binary + parts.of_binary);
      first = ForSmallGroups(plan, first, block, [&](const Node& node) {
        node.fanout == 2 ? binary.Add(node) : others.Add(node);
      });
      binary.Flush();
      others.Flush();
    }
    block.Write();
  }
  if (problem.vectors != nullptr) {
    UpdateWholeSums(*problem.vectors, begin, end, problem.width);
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_SMALL_GROUPS_INL_H_
