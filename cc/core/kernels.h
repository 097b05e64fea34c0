// The inner kernels, one work item each, compiled once per ISA (kernels.cc).
//
// Those of a loss see the examples in sorted order (plan.h): row i of x is the
// inputs of the i-th sorted example, as accumulators, padded with zeros
// (types.h).

#ifndef TF_HSM_CC_CORE_KERNELS_H_
#define TF_HSM_CC_CORE_KERNELS_H_

#include <cstdint>

#include "cc/core/isa.h"
#include "cc/core/plan.h"
#include "cc/core/sparse_update.h"
#include "cc/core/types.h"
#include "cc/core/update.h"

namespace tf_hsm {

// Most examples of a group in one work item: x and dx stay in the second cache.
constexpr int64_t kMaxItemExamples = 48;
// The same on tiles, where a group's weights are packed by each item anew.
constexpr int64_t kMaxTileExamples = 128;

// What forward and backward share: the sorted inputs and the weights.
template <typename T>
struct Problem {
  using A = Accumulator<T>;
  const Plan* plan = nullptr;
  int64_t width = 0;
  const T* weights = nullptr;  // [rows, width]
  const T* biases = nullptr;   // [rows], or null
  const A* x = nullptr;        // [examples, Padded(width)], sorted
};

// Where the forward writes; null pointers are not asked for.
template <typename T>
struct ForwardOutputs {
  using A = Accumulator<T>;
  A* loss = nullptr;  // [batch], by original example; added to
  // [batch, width], by original example; with dx_is_sorted [examples, width],
  // by sorted one. Written by small_groups, added to by forward_group.
  A* dx = nullptr;
  const A* dx_factors = nullptr;  // [examples], sorted: of dx; null: 1
  // [passes, 2]: the maximum m of the logits and 1 / sum exp(z - m); of groups
  // of two rows, only where probs is null.
  A* normalizers = nullptr;
  A* probs = nullptr;  // [probs]
  bool dx_is_sorted = false;

  // Where dx has the sorted example `at`.
  int64_t DxRow(const Plan& plan, int64_t at) const {
    return dx_is_sorted ? at : plan.order[at];
  }
};

// From one partial gradient to the next.
constexpr int64_t PartialStride(int64_t width) { return Padded(width + 1); }

// What the backward reads besides the problem, and where its result goes: into
// dw and db, or at once, as an update, into the parameters.
template <typename T>
struct BackwardArguments {
  using A = Accumulator<T>;
  const A* loss_grads = nullptr;      // [examples], sorted
  const A* normalizers = nullptr;     // [passes, 2], as the forward made them
  const A* probs = nullptr;           // [probs]; null: made again from weights
  const Update<T>* update = nullptr;  // or null, and then:
  T* dw = nullptr;                    // [touched rows, width]
  T* db = nullptr;                    // [touched rows]
  bool past_cache = false;            // dw is too large for any cache
  // [plan.num_partials, PartialStride(width)]: what each run adds to dw, and in
  // column `width` to db, of the first rows of the groups of two that it shares
  // with other runs. Of the second rows it is the negative.
  A* partials = nullptr;
};

// Some of a group's examples (forward) or rows (backward).
struct Slice {
  int64_t node;
  int64_t begin;
  int64_t end;
  int64_t cost;
};

// Some examples at the rows of some consecutive groups.
template <typename T>
struct GroupRows {
  using A = Accumulator<T>;
  const T* weights = nullptr;  // of the first row
  const T* biases = nullptr;   // likewise, or null
  int64_t width = 0;
  const A* x = nullptr;  // [num_examples, Padded(width)]
  int64_t num_examples = 0;
  const int64_t* group_offsets = nullptr;  // [num_groups + 1]
  int64_t num_groups = 0;
  A scale = 1;  // of the logits
};

template <typename T>
struct Kernels {
  using A = Accumulator<T>;
  // At most `forward_examples` of a group's examples: the loss, and dx in the
  // same read of the weights.
  void (*forward_group)(const Problem<T>&, const Slice&,
                        const ForwardOutputs<T>&);
  int64_t forward_examples;
  // Every group of at most kMaxSmallFanout rows on the paths of the sorted
  // examples [begin, end), before their other groups. With a `step`, which has
  // an update, those that no other examples pass are updated, and of the others
  // the partial gradients are written that the plan has places for. Where that
  // is done, neither normalizers nor probabilities are kept.
  void (*small_groups)(const Problem<T>&, int64_t begin, int64_t end,
                       const ForwardOutputs<T>&,
                       const BackwardArguments<T>* step);
  // dW and db of the rows of `count` slices, written or applied. Where the plan
  // has places for partial gradients of a group, they are sums of these, which
  // it overwrites.
  void (*backward_rows)(const Problem<T>&, const Slice* slices, int64_t count,
                        const BackwardArguments<T>&);
  // Of a slice for backward_rows that is not a whole group: it has a multiple
  // of as many rows, but for the last.
  int64_t backward_row_step;

  // See log_softmax.h: out [num_examples, stride], exp, and a product.
  void (*log_softmax)(const GroupRows<T>&, A* out, int64_t stride);
  void (*exps)(const A* in, int64_t count, A* out);
  void (*add_expectations)(const T* w, int64_t rows, int64_t width,
                           const A* factors, int64_t stride, int64_t examples,
                           A* sums);

  // Updates the rows that are the keys of [begin, end), sorted, by the sums of
  // the values at their indices: of no row are there others.
  void (*sparse_rows)(const Update<T>&, const SparseGradient<T>&,
                      const KeyAndIndex* begin, const KeyAndIndex* end);
};

// The table of one ISA, which must be supported.
template <typename T>
const Kernels<T>& KernelsFor(Isa isa);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_KERNELS_H_
