// Which groups the label sets of a batch visit, and who is positive there.
//
// In a label tree an example may have any number of labels. It visits the
// root's group, and every group below a row that is on the path of one of its
// labels; these rows are positive, the others of the groups negative. So an
// example without labels visits the root's group alone.
//
// Cost: O(visits + positive rows), whatever the number of classes.

#ifndef TF_HSM_CC_CORE_PLAN_LABEL_PLAN_H_
#define TF_HSM_CC_CORE_PLAN_LABEL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/plan/plan.h"
#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

struct LabelPlan {
  // The visits, in the place of examples: plan.order has the example of each.
  // The nodes are in the order of their groups, with no parents, and no visit
  // has a target: to the backward, all gradients by logits are probabilities.
  Plan plan;
  // Visit v has the positive rows [positive_starts[v], positive_starts[v + 1])
  // of `positives`, counted in its group, ascending.
  std::vector<int64_t> positive_starts;
  std::vector<int64_t> positives;
  // Example i made the visits [example_starts[i], example_starts[i + 1]) of
  // `example_visits`, ascending.
  std::vector<int64_t> example_starts;
  std::vector<int64_t> example_visits;

  int64_t num_visits() const { return plan.num_examples(); }
};

// Fills `plan` from labels [batch, count], of which those in `ignored` stand
// for none, for a tree of one root. Every tree value that it reads is checked
// first. Returns an empty string, or a sentence that names the argument, the
// position, the value and the legal range.
std::string MakeLabelPlan(const TreeView& tree, const int64_t* labels,
                          int64_t batch, int64_t count,
                          const std::vector<int64_t>& ignored,
                          const Parallel& parallel, LabelPlan* plan);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_LABEL_PLAN_H_
