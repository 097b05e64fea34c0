// What the kernels of a loss read and write.
//
// They see the examples in sorted order (plan.h): row i of x is the inputs of
// the i-th sorted example, as accumulators, padded with zeros (types.h).

#ifndef TF_HSM_CC_CORE_GROUPS_PROBLEM_H_
#define TF_HSM_CC_CORE_GROUPS_PROBLEM_H_

#include <cstdint>

#include "cc/core/base/types.h"
#include "cc/core/plan/plan.h"
#include "cc/core/plan/vector_plan.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

// Most examples of a group in one work item: x and dx stay in the second cache.
constexpr int64_t kMaxItemExamples = 48;
// Most of them on tiles, where each item packs the group's weights anew.
constexpr int64_t kMaxTileExamples = 128;

// Inputs that are vectors of a table, or sums of such. A training step of small
// groups reads them where they lie, sums their dx by vector, and updates those
// whose sums are whole.
template <typename T>
struct VectorInputs {
  using A = Accumulator<T>;
  const VectorPlan* plan = nullptr;
  const T* table = nullptr;  // [..., width]
  // [examples + 1]: where an example's vectors begin. Null: it has one.
  const int64_t* starts = nullptr;
  const A* factors = nullptr;         // [vectors]; null: 1
  A* sums = nullptr;                  // [plan->num_sums, Padded(width)]
  const Update<T>* update = nullptr;  // of the table

  int64_t Start(int64_t at) const { return starts ? starts[at] : at; }
  A Factor(int64_t i) const { return factors ? factors[i] : A(1); }
  const T* Row(int64_t i, int64_t width) const {
    return table + plan->vectors[i].row * width;
  }
};

// What forward and backward share: the sorted inputs and the weights.
template <typename T>
struct Problem {
  using A = Accumulator<T>;
  const Plan* plan = nullptr;
  int64_t width = 0;
  const T* weights = nullptr;  // [weight rows, width]
  const T* biases = nullptr;   // [weight rows], or null
  const A* x = nullptr;        // [examples, Padded(width)], sorted; or vectors
  // The share of each group's target that is spread over its rows.
  A label_smoothing = 0;
  // [rows of the tree]: what each row gets of that, which is 1 for each group
  // together; null: evenly.
  const float* smoothing_prior = nullptr;
  // In place of x, where ReadsVectors (loss.h), and then in place of dx too.
  const VectorInputs<T>* vectors = nullptr;
  // For plans without small groups (plan.h): c of the logits c tanh(u / c) that
  // are made of u = w . x + b, without label smoothing, or 0; and the factor of
  // the square of each group's log-sum-exp, which the loss then has more.
  A logit_soft_cap = 0;
  A z_loss = 0;

  // That of one group: the target of a single row is 1, whatever its share.
  A Smoothing(const Node& node) const {
    return node.fanout > 1 ? label_smoothing : 0;
  }

  // The prior of one group, or null.
  const float* Prior(const Node& node) const {
    return smoothing_prior == nullptr ? nullptr
                                      : smoothing_prior + node.first_row;
  }
};

// The smoothed logit of a label: a mean of its logit and the mean logit of its
// group, weighted by `smoothing`. A term of weight zero is left out, since it
// may be infinite.
template <typename A>
A Smoothed(A smoothing, A label, A mean) {
  return (smoothing < 1 ? (1 - smoothing) * label : 0) + smoothing * mean;
}

// Where the forward writes; null pointers are not asked for.
template <typename T>
struct ForwardOutputs {
  using A = Accumulator<T>;
  A* loss = nullptr;  // [batch], by original example; added to
  // [batch, width], by original example; with dx_is_sorted [examples,
  // Padded(width)], by sorted one. Written by small_groups, added to by
  // forward_group.
  A* dx = nullptr;
  const A* dx_factors = nullptr;  // [examples], sorted: of dx; null: 1
  // [passes, 2]: the maximum m of the logits and 1 / sum exp(z - m); of groups
  // of two rows, only where probs is null.
  A* normalizers = nullptr;
  A* probs = nullptr;  // [probs]
  bool dx_is_sorted = false;

  // The row of dx of the sorted example `at`.
  A* DxRow(const Problem<T>& problem, int64_t at) const {
    return dx_is_sorted ? dx + at * Padded(problem.width)
                        : dx + problem.plan->order[at] * problem.width;
  }
};

// From one partial gradient to the next.
constexpr int64_t PartialStride(int64_t width) { return Padded(width + 1); }

// The gradient of one group's rows, summed over its examples, some after
// others.
template <typename A>
struct GradientSums {
  A* dw = nullptr;  // [fanout, width]
  A* db = nullptr;  // [fanout]
  // The sorted examples that are added. Before the first they hold anything.
  int64_t begin = 0, end = 0;
};

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
  // [plan.num_partials, PartialStride(width)]: what each span adds to dw, and
  // in column `width` to db, of the first rows of the groups of two that
  // several blocks share. The second rows, if they have weights, have the
  // negative.
  A* partials = nullptr;
  // Null; or where the examples of a part of the one group are added, in place
  // of dw and db. An update is then made by the sums after these examples.
  const GradientSums<A>* sums = nullptr;
};

// Some of a group's examples (forward) or rows (backward).
struct Slice {
  int64_t node;
  int64_t begin;
  int64_t end;
  int64_t cost;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_PROBLEM_H_
