// The kernel table: the inner kernels, one work item each, of one ISA. They are
// compiled once per ISA (kernel_table.cc).

#ifndef TF_HSM_CC_CORE_TABLE_KERNEL_TABLE_H_
#define TF_HSM_CC_CORE_TABLE_KERNEL_TABLE_H_

#include <cstdint>

#include "cc/core/base/isa.h"
#include "cc/core/base/types.h"
#include "cc/core/groups/group_rows.h"
#include "cc/core/groups/problem.h"
#include "cc/core/update/sparse_gradient.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

template <typename T>
struct KernelTable {
  using A = Accumulator<T>;
  // At most `forward_examples` of a group's examples: the loss, and dx in the
  // same read of the weights.
  void (*forward_group)(const Problem<T>&, const Slice&,
                        const ForwardOutputs<T>&);
  int64_t forward_examples;
  // Handles all groups of at most kMaxSmallFanout rows on the paths of a span,
  // the sorted examples [begin, end). Runs before the kernels of larger groups.
  // `step` has an update, or is null. With an update, a group that only one
  // block of examples visits is updated at once. A group for which the plan has
  // reserved partial gradients gets those of this span, and is updated at once
  // if no other span visits it. All other groups keep their normalizers or
  // probabilities for the backward.
  // If the problem has vectors, the kernel also sums the dx of each vector, and
  // updates the vectors whose sums are complete.
  void (*small_groups)(const Problem<T>&, int64_t begin, int64_t end,
                       const ForwardOutputs<T>&,
                       const BackwardArguments<T>* step);
  // dW and db of the rows of `count` slices, written or applied. Where the plan
  // has places for partial gradients of a group, they are sums of these, which
  // it overwrites.
  void (*backward_rows)(const Problem<T>&, const Slice* slices, int64_t count,
                        const BackwardArguments<T>&);
  // Reserves, on this thread, the scratch of all kernels of a training step of
  // at most `examples` per group, and of sparse_rows: they then need no memory.
  // Throws std::bad_alloc.
  void (*reserve_step)(int64_t examples, int64_t width);
  // A slice for backward_rows that is not a whole group has a multiple of this
  // many rows, but for the last slice.
  int64_t backward_row_step;

  // See log_softmax-inl.h: out [num_examples, stride], exp, and a product.
  void (*log_softmax)(const GroupRows<T>&, A* out, int64_t stride);
  void (*exps)(const A* in, int64_t count, A* out);
  void (*add_expectations)(const T* w, int64_t rows, int64_t width,
                           const A* factors, int64_t stride, int64_t examples,
                           A* sums);

  // Losses and gradients by logits of one group of a label tree: see
  // sigmoid-inl.h.
  void (*label_losses)(const GroupRows<T>&, const int64_t* starts,
                       const int64_t* positives, A* losses, A* dz);

  // Updates the rows that are the keys of [begin, end), sorted, by the sums of
  // the values at their indices. No row has values elsewhere.
  void (*sparse_rows)(const Update<T>&, const SparseGradient<T>&,
                      const KeyAndIndex* begin, const KeyAndIndex* end);
  // Reserves its scratch on this thread. Throws std::bad_alloc.
  void (*reserve_rows)(int64_t width);
};

// The table of one ISA, which must be supported.
template <typename T>
const KernelTable<T>& KernelTableFor(Isa isa);

// The tables, each in the namespace of its ISA.
#define TF_HSM_DECLARE(enumerator, name) \
  namespace name {                       \
  template <typename T>                  \
  const KernelTable<T>& Table();         \
  }
TF_HSM_ISAS(TF_HSM_DECLARE)
#undef TF_HSM_DECLARE

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TABLE_KERNEL_TABLE_H_
