// What the groups of few rows share in one block of examples
// (small_groups-inl.h).

#ifndef TF_HSM_CC_CORE_GROUPS_SMALL_EXAMPLE_BLOCK_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SMALL_EXAMPLE_BLOCK_INL_H_

#include <cstdint>

#include "cc/core/base/prefetch.h"
#include "cc/core/groups/problem.h"
#include "cc/core/groups/small/row_prefetcher-inl.h"
#include "cc/core/simd/tile-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// The examples [begin, end), and the sums of their losses and dx, which start
// at zero.
template <typename T>
struct ExampleBlock {
  using A = Accumulator<T>;

  // Memory of a block of `examples`, in accumulators.
  static int64_t ScratchSize(int64_t examples, int64_t width) {
    return examples * (Padded(width) + 1);
  }

  ExampleBlock(const Problem<T>& problem, int64_t first_node, int64_t begin,
               int64_t end, const ForwardOutputs<T>& out,
               const BackwardArguments<T>* step, A* scratch)
      : problem(problem),
        begin(begin),
        end(end),
        out(out),
        step(step),
        prefetcher(problem, first_node, end),
        dx{scratch, Padded(problem.width)},
        loss(scratch + (end - begin) * dx.stride) {
    __builtin_memset(scratch, 0,
                     ScratchSize(end - begin, problem.width) * sizeof(A));
  }

  // The node's examples within the block, in sorted order.
  int64_t First(const Node& node) const {
    return node.begin > begin ? node.begin : begin;
  }
  int64_t Count(const Node& node) const {
    return (node.end < end ? node.end : end) - First(node);
  }

  // Whether a training step updates the node here, and keeps nothing of it.
  bool Updates(const Node& node) const {
    return step != nullptr && node.begin >= begin && node.end <= end;
  }

  // Where the block's partial gradient of the node goes.
  A* Partial(const Node& node) const {
    const int64_t before = begin / kBlockExamples - node.first_block();
    return step->partials +
           (node.partial_offset + before) * PartialStride(problem.width);
  }

  // From an example on.
  Matrix<const A> X(int64_t at) const {
    const int64_t stride = Padded(problem.width);
    return {problem.x + at * stride, stride};
  }
  Matrix<A> Dx(int64_t at) const { return {dx.row(at - begin), dx.stride}; }
  A* Loss(int64_t at) const { return loss + (at - begin); }

  // Prefetches the next row of the output dx, which lies anywhere in memory.
  void PrefetchDx() {
    if (out.dx == nullptr || prefetched == end) return;
    Prefetch<true>(out.DxRow(problem, prefetched++), problem.width);
  }

  // Adds the losses to the outputs, and writes dx: what comes later adds to it.
  void Write() {
    const int64_t width = problem.width;
    const int64_t* order = problem.plan->order.data();
    for (int64_t at = begin; at < end; ++at) {
      out.loss[order[at]] += *Loss(at);
      if (out.dx == nullptr) continue;
      PrefetchDx();
      A* to = out.DxRow(problem, at);
      const A* from = Dx(at).data;
      const A factor = out.dx_factors ? out.dx_factors[at] : 1;
      for (int64_t d = 0; d < width; ++d) to[d] = from[d] * factor;
    }
  }

  const Problem<T>& problem;
  const int64_t begin, end;
  const ForwardOutputs<T>& out;
  const BackwardArguments<T>* const step;  // or null
  RowPrefetcher<T> prefetcher;
  const Matrix<A> dx;          // [end - begin, width]
  A* const loss;               // [end - begin]
  int64_t prefetched = begin;  // examples whose row of dx is
};

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_EXAMPLE_BLOCK_INL_H_
