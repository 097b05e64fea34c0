// Which groups a batch of labels touches, and which examples pass each.
//
// The examples are sorted once by the depth-first rank of their leaf. Then the
// examples that pass a group are one interval of the sorted order, at every
// level, and the touched groups are found by one walk that climbs from each
// leaf only as far as the first group that the leaf before it had passed too.
// Cost: O(B + touched groups), plus the passes of groups that are not
// small, whatever the number of classes; a pass is one example at one group of
// its path.

#ifndef TF_HSM_CC_CORE_PLAN_PLAN_H_
#define TF_HSM_CC_CORE_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// Groups of at most this many rows are small: those of neighbouring examples
// are scored together.
constexpr int64_t kMaxSmallFanout = 8;

// Consecutive sorted examples whose small groups are scored together: a block.
constexpr int64_t kBlockExamples = 32;

// Consecutive blocks are one work item, a span: few enough for what its
// examples share to stay in the second cache, and no more than leave kManySpans
// items for the threads.
constexpr int64_t kMaxSpanBlocks = 16;
constexpr int64_t kManySpans = 16;

// A touched group and the sorted examples [begin, end) that pass it.
struct Node {
  int64_t group = 0;
  int64_t first_row = 0;
  int64_t fanout = 0;
  int64_t parent = -1;        // index of the parent node, -1 for a root's
  int64_t parent_local = -1;  // our parent row, counted within its group
  int64_t depth = 0;          // in its tree
  int64_t after = 0;          // index of the first node past its descendants
  int64_t begin = 0;
  int64_t end = 0;
  int64_t row_offset = 0;     // of its first row among all touched weight rows
  int64_t pass_offset = 0;    // of its first example among all (node, example)
  int64_t target_offset = 0;  // of its targets, unless it is small
  int64_t prob_offset = 0;    // of its [end - begin, fanout] probabilities
  // The place of its partial gradients, one for each of its spans; -1: none.
  int64_t partial_offset = -1;

  int64_t population() const { return end - begin; }
  // Whether each of the spans that share the node has a partial gradient of it.
  bool has_partials() const { return partial_offset >= 0; }
  // The blocks, or spans, of `size` examples that have examples of it.
  int64_t First(int64_t size) const { return begin / size; }
  int64_t Count(int64_t size) const {
    return (end - 1) / size - First(size) + 1;
  }
};

struct Plan {
  bool pinned = false;              // as of the tree
  int64_t span = kBlockExamples;    // the examples of a span
  std::vector<int64_t> order;       // sorted position -> example
  std::vector<int64_t> leaf_node;   // sorted position -> node of the leaf
  std::vector<int64_t> leaf_local;  // the leaf's row, counted in its group
  std::vector<Node> nodes;          // depth-first: a parent before its children
  // The local row on the path of each example of each group that is not small:
  // with the small ones, a deep tree's would be batch x depth values.
  std::vector<int64_t> targets;
  std::vector<int64_t> by_group;  // nodes in the order of their groups
  int64_t num_rows = 0;           // touched rows of the weights
  int64_t num_large = 0;          // nodes that are not small
  int64_t num_binary = 0;         // nodes of two rows
  int64_t num_passes = 0;         // sum of populations
  int64_t num_probs = 0;          // sum of population x fanout
  int64_t num_partials = 0;       // partial gradients: PlanTraining

  int64_t num_examples() const { return static_cast<int64_t>(order.size()); }

  // The rows of the weights that a node has, and the first of them.
  int64_t NumWeightRows(const Node& node) const {
    return pinned ? 1 : node.fanout;
  }
  int64_t FirstWeightRow(const Node& node) const {
    return pinned ? node.first_row / 2 : node.first_row;
  }
};

// Fills `plan` from labels [batch]; examples whose label is one of `ignored`
// are left out. Every tree value that it reads is checked first. Returns an
// empty string, or a sentence that names the argument, the position, the value
// and the legal range.
std::string MakePlan(const TreeView& tree, const int64_t* labels, int64_t batch,
                     const std::vector<int64_t>& ignored, Plan* plan);

// MakePlan in parts: `order` alone, of a new plan; then the nodes, on several
// threads (node_parts.h); then what follows from these.
std::string SortExamples(const TreeView& tree, const int64_t* labels,
                         int64_t batch, const std::vector<int64_t>& ignored,
                         Plan* plan);
std::string FinishPlan(Plan* plan);

// Calls use(at, target) for the sorted examples [begin, end) of a node of the
// plan, in order: the target is the row on the example's path, counted in the
// node's group.
template <typename Use>
void ForTargets(const Plan& plan, const Node& node, int64_t begin, int64_t end,
                Use use) {
  int64_t at = begin;
  for (int64_t child = &node - plan.nodes.data() + 1;
       child < node.after && at < end; child = plan.nodes[child].after) {
    const Node& below = plan.nodes[child];
    const int64_t first = below.begin < end ? below.begin : end;
    const int64_t last = below.end < end ? below.end : end;
    const int64_t local = below.parent_local;
    for (; at < first; ++at) use(at, plan.leaf_local[at]);
    for (; at < last; ++at) use(at, local);
  }
  for (; at < end; ++at) use(at, plan.leaf_local[at]);
}

// Those targets as an array.
void FillTargets(const Plan& plan, const Node& node, int64_t begin, int64_t end,
                 int64_t* targets);

// The rows of weights of the touched groups, ascending and unique:
// plan.num_rows of them.
void TouchedRows(const Plan& plan, int64_t* rows);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_PLAN_H_
