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

  // Memory of a block of `examples`, in accumulators: dx, loss, and x.
  static int64_t ScratchSize(int64_t examples, int64_t width) {
    return Padded(examples * (Padded(width) + 1)) + examples * Padded(width);
  }

  ExampleBlock(const Problem<T>& problem, int64_t begin, int64_t end,
               const ForwardOutputs<T>& out, const BackwardArguments<T>* step,
               RowPrefetcher<T>* prefetcher, A* scratch)
      : problem(problem),
        begin(begin),
        end(end),
        out(out),
        step(step),
        prefetcher(prefetcher),
        adds_to_sums(AddsToSums(problem)),
        dx{scratch, Padded(problem.width)},
        loss(scratch + (end - begin) * dx.stride) {
    __builtin_memset(loss, 0, (end - begin) * sizeof(A));
    adds_to_sums ? BeginSums() : BeginDx();
    if (problem.vectors == nullptr) {
      x = problem.x + begin * dx.stride;
    } else {
      A* gathered = scratch + Padded((end - begin) * (dx.stride + 1));
      Gather(gathered);
      x = gathered;
      const int64_t count = problem.plan->num_examples();
      const int64_t next = end + kBlockExamples;
      next_vector = past_vectors = problem.vectors->Start(end);
      if (end % problem.plan->span != 0 && end < count) {
        past_vectors = problem.vectors->Start(next < count ? next : count);
      }
    }
  }

  // The node's first span.
  int64_t Span(const Node& node) const {
    return node.First(problem.plan->span);
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

  // The span's partial gradient of the node.
  A* Partial(const Node& node) const {
    const int64_t before = begin / problem.plan->span - Span(node);
    return step->partials +
           (node.partial_offset + before) * PartialStride(problem.width);
  }
  // Whether the block is the first one that adds to it.
  bool BeginsPartial(const Node& node) const {
    return node.begin >= begin || begin % problem.plan->span == 0;
  }
  // Whether it is the node's whole gradient after this block.
  bool EndsPartials(const Node& node) const {
    return node.end <= end && Span(node) == begin / problem.plan->span;
  }

  // From an example on.
  Matrix<const A> X(int64_t at) const {
    return {x + (at - begin) * dx.stride, dx.stride};
  }
  Matrix<A> Dx(int64_t at) const { return {dx.row(at - begin), dx.stride}; }
  A* const* DxRows(int64_t at) const { return dx_rows + (at - begin); }
  A* Loss(int64_t at) const { return loss + (at - begin); }

  bool MakesDx() const {
    return out.dx != nullptr || problem.vectors != nullptr;
  }

  static bool AddsToSums(const Problem<T>& problem) {
    const Plan& plan = *problem.plan;
    return problem.vectors != nullptr && problem.vectors->starts == nullptr &&
           problem.vectors->factors == nullptr &&
           plan.num_binary == static_cast<int64_t>(plan.nodes.size());
  }

  // Where dx is added to: the sums, or rows of the block.
  void BeginSums() {
    for (int64_t at = begin; at < end; ++at) {
      const VectorPlan::Vector& vector = problem.vectors->plan->vectors[at];
      A* sum = problem.vectors->sums + vector.sum * dx.stride;
      dx_rows[at - begin] = sum;
      // Without a width there are no sums, but a null pointer.
      if (vector.is_first && dx.stride > 0) {
        __builtin_memset(sum, 0, dx.stride * sizeof(A));
      }
    }
  }
  void BeginDx() {
    if (!MakesDx()) return;
    __builtin_memset(dx.data, 0, (end - begin) * dx.stride * sizeof(A));
    for (int64_t at = begin; at < end; ++at) {
      dx_rows[at - begin] = dx.row(at - begin);
    }
  }

  // Prefetches the next row of the output dx, or the next vector of the next
  // block, if it is of the same span, and its sum. They lie anywhere in memory.
  void PrefetchNext() {
    if (problem.vectors != nullptr) {
      if (next_vector == past_vectors) return;
      const VectorInputs<T>& vectors = *problem.vectors;
      const int64_t sum = vectors.plan->vectors[next_vector].sum;
      Prefetch(vectors.Row(next_vector++, problem.width), problem.width);
      Prefetch<true>(vectors.sums + sum * dx.stride, dx.stride);
    } else if (out.dx != nullptr && prefetched != end) {
      Prefetch<true>(out.DxRow(problem, prefetched++), problem.width);
    }
  }

  // Adds the losses to the outputs, and writes dx: what comes later adds to it.
  void Write() {
    const int64_t width = problem.width;
    const int64_t* order = problem.plan->order.data();
    for (int64_t at = begin; at < end; ++at) {
      out.loss[order[at]] += *Loss(at);
      PrefetchNext();
      if (problem.vectors != nullptr && !adds_to_sums) {
        AddToSums(*problem.vectors, at);
      }
      if (out.dx == nullptr) continue;
      A* to = out.DxRow(problem, at);
      const A* from = Dx(at).data;
      const A factor = out.dx_factors ? out.dx_factors[at] : 1;
      for (int64_t d = 0; d < width; ++d) to[d] = from[d] * factor;
    }
  }

  // Reads the vectors of the examples.
  void Gather(A* to) const {
    const VectorInputs<T>& vectors = *problem.vectors;
    const int64_t width = problem.width;
    for (int64_t at = begin; at < end; ++at, to += dx.stride) {
      int64_t i = vectors.Start(at);
      if (i == vectors.Start(at + 1)) {
        __builtin_memset(to, 0, dx.stride * sizeof(A));
        continue;
      }
      const T* from = vectors.Row(i, width);
      A factor = vectors.Factor(i);
      for (int64_t d = 0; d < width; ++d) {
        to[d] = factor * ToAccumulator(from[d]);
      }
      for (int64_t d = width; d < dx.stride; ++d) to[d] = 0;
      while (++i < vectors.Start(at + 1)) {
        from = vectors.Row(i, width);
        factor = vectors.Factor(i);
        for (int64_t d = 0; d < width; ++d) {
          to[d] += factor * ToAccumulator(from[d]);
        }
      }
    }
  }

  // Adds dx of one example to the sums of its vectors.
  void AddToSums(const VectorInputs<T>& vectors, int64_t at) const {
    const A* from = Dx(at).data;
    const A grad = out.dx_factors ? out.dx_factors[at] : 1;
    for (int64_t i = vectors.Start(at); i < vectors.Start(at + 1); ++i) {
      const VectorPlan::Vector& vector = vectors.plan->vectors[i];
      const A factor = grad * vectors.Factor(i);
      A* to = vectors.sums + vector.sum * dx.stride;
      if (vector.is_first) {
        for (int64_t d = 0; d < dx.stride; ++d) to[d] = from[d] * factor;
      } else {
        for (int64_t d = 0; d < dx.stride; ++d) to[d] += from[d] * factor;
      }
    }
  }

  const Problem<T>& problem;
  const int64_t begin, end;
  const ForwardOutputs<T>& out;
  const BackwardArguments<T>* const step;  // or null
  RowPrefetcher<T>* const prefetcher;
  // Whether the rows of dx are the sums of the vectors, so that each term of dx
  // is to come times its example's gradient: where an example is one vector,
  // and BinaryGroups make all of dx.
  const bool adds_to_sums;
  const Matrix<A> dx;                         // [end - begin, width]
  A* const loss;                              // [end - begin]
  const A* x;                                 // [end - begin, width], as dx
  A* dx_rows[kBlockExamples];                 // [end - begin], of dx or sums
  int64_t prefetched = begin;                 // examples whose row of dx is
  int64_t next_vector = 0, past_vectors = 0;  // to prefetch
};

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SMALL_EXAMPLE_BLOCK_INL_H_
