// Trees that are as even as can be, and labels drawn for them.

#ifndef TF_HSM_BENCHMARKS_GPU_TREE_H_
#define TF_HSM_BENCHMARKS_GPU_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// The leaves are in class order, so that the depth-first rank of a class is the
// class itself.
struct EvenTree {
  std::vector<int64_t> group_offsets = {0};
  std::vector<int64_t> group_parents = {-1};
  std::vector<int64_t> class_rows;
  std::vector<int64_t> row_groups;
  std::vector<int64_t> class_ranks;

  TreeView view() const;
};

// A node with n classes below it has min(branching of its level, n) children,
// whose numbers of classes differ by at most one, as in Tree.balanced. Levels
// that no node needs are left out.
EvenTree MakeEvenTree(int64_t num_classes,
                      const std::vector<int64_t>& branching);

// About sqrt(N) groups of about sqrt(N), as in Tree.two_level.
std::vector<int64_t> TwoLevels(int64_t num_classes);

// Uniform labels, or class c with probability proportional to 1 / (c + 1).
class Labels {
 public:
  Labels(int64_t num_classes, bool zipf);
  std::vector<int64_t> Draw(int64_t batch, uint64_t seed) const;

 private:
  int64_t num_classes_;
  std::vector<double> cumulative_;  // of zipf, else empty
};

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_GPU_TREE_H_
