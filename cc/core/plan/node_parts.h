// The nodes of a plan, made in parts: consecutive sorted examples each.
//
// A part begins anew at the root. Where its first path is that of the part
// before, as far as that is still open, the nodes are joined, and all others
// are moved behind those of the parts before. So the nodes are the same in
// however many parts they are made.

#ifndef TF_HSM_CC_CORE_PLAN_NODE_PARTS_H_
#define TF_HSM_CC_CORE_PLAN_NODE_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/plan/plan.h"
#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// The walk of MakePlan (plan.h), in parts of at least so many examples.
class NodeParts {
 public:
  // Fewer are not worth a part of their own.
  static constexpr int64_t kPartExamples = 1024;

  NodeParts(const TreeView& tree, const int64_t* labels, Plan* plan,
            int64_t part_examples = kPartExamples);

  int64_t count() const { return static_cast<int64_t>(parts_.size()); }

  // Makes part i, on any thread.
  void Make(int64_t i);

  // When all are made, once. Returns an empty string, or the error of MakePlan:
  // of several, that of the first part.
  std::string Finish(const Parallel& parallel);

 private:
  struct Part {
    int64_t begin = 0, end = 0;  // sorted examples
    std::string error;
    std::vector<Node> nodes;    // numbered from the part's first one
    std::vector<int64_t> open;  // the path of nodes that still grow
    // What Join finds: how many of its first nodes are nodes of earlier parts,
    // which these are, and what is added to the number of any other.
    std::vector<int64_t> shared;
    int64_t offset = 0;

    int64_t num_shared() const { return static_cast<int64_t>(shared.size()); }
    // The number of the part's node `i`, or -1 as it is, in the plan.
    int64_t InPlan(int64_t i) const {
      return i < 0 ? i : i < num_shared() ? shared[i] : i + offset;
    }
  };

  // The end of a node that an earlier part began.
  struct End {
    int64_t node, at, after;
  };

  class Builder;

  // Finds the part's shared nodes and its offset, where the plan has `size`
  // nodes before; `open` is the path that still grows, and becomes that after
  // the part.
  void Meet(Part* part, int64_t size, std::vector<int64_t>* open,
            std::vector<int64_t>* open_groups);
  void Move(Part* part);
  // Makes the plan's nodes of those of the parts.
  std::string Join(const Parallel& parallel);

  const TreeView& tree_;
  const int64_t* const labels_;
  Plan& plan_;
  std::vector<Part> parts_;
  std::vector<End> ends_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_PLAN_NODE_PARTS_H_
