#include "cc/core/api/class_log_probs.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Rows of paths that are held at a time, but for one path.
constexpr int64_t kMaxSteps = 1 << 20;

// A row on the path of a class.
struct Step {
  int64_t group;
  int64_t example;
  int64_t local;  // the row, counted in its group
  int64_t slot;   // among the steps of all paths, each from its leaf up
};

// The end of a path in the steps of all paths, and the root that it is below;
// -1 for the path of no class.
struct Path {
  int64_t end;
  int64_t root;
};

// The root whose group is `group`.
std::string RootOf(const TreeView& tree, int64_t group, int64_t* root) {
  *root = 0;
  if (tree.root_groups == nullptr) return "";
  const int64_t* end = tree.root_groups + tree.num_roots;
  const int64_t* found = std::lower_bound(tree.root_groups, end, group);
  if (found == end || *found != group) {
    return At("group_parents", group, -1) +
           ", but the group is not one of root_groups";
  }
  *root = found - tree.root_groups;
  return "";
}

// Adds the path of `label`, the classes' element number `at`, and finds its
// root.
std::string AddPath(const TreeView& tree, int64_t at, int64_t label,
                    int64_t example, std::vector<Step>* steps, int64_t* root) {
  if (label < 0 || label >= tree.num_classes) {
    return OutOfRange("classes", at, label, 0, tree.num_classes) +
           ", the tree's classes";
  }
  int64_t row = tree.class_rows[label];
  if (row < 0 || row >= tree.num_rows) {
    return OutOfRange("class_rows", label, row, 0, tree.num_rows);
  }
  int64_t below = tree.num_groups;
  while (row >= 0) {
    GroupSpan span;
    std::string error = GroupOf(tree, row, below, &span);
    if (!error.empty()) return error;
    below = span.group;
    steps->push_back({span.group, example, row - span.first_row,
                      static_cast<int64_t>(steps->size())});
    row = tree.group_parents[span.group];
  }
  return RootOf(tree, below, root);
}

}  // namespace

template <typename T>
std::string ClassLogProbs(const GroupScorer<T>& scorer, const int64_t* classes,
                          int64_t count, Accumulator<T>* log_probs) {
  using A = Accumulator<T>;
  const int64_t total = scorer.num_examples * count;
  std::vector<Step> steps;
  std::vector<Path> paths;
  std::vector<Visit> visits;
  std::vector<int64_t> starts;  // of each visit's steps
  std::vector<A> terms;         // by slot
  for (int64_t begin = 0; begin < total;) {
    steps.clear();
    paths.clear();
    int64_t end = begin;
    for (; end < total && static_cast<int64_t>(steps.size()) < kMaxSteps;
         ++end) {
      int64_t root = -1;
      if (classes[end] != -1 || scorer.root_log_probs == nullptr) {
        const std::string error =
            AddPath(scorer.tree, end, classes[end], end / count, &steps, &root);
        if (!error.empty()) return error;
      }
      paths.push_back({static_cast<int64_t>(steps.size()), root});
    }
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      return a.group != b.group       ? a.group < b.group
             : a.example != b.example ? a.example < b.example
                                      : a.slot < b.slot;
    });
    ShareVisits(steps, &visits, &starts);
    terms.resize(steps.size());
    const std::string error =
        Score<T>(scorer, visits, [&](int64_t visit, const A* scores) {
          for (int64_t i = starts[visit]; i < starts[visit + 1]; ++i) {
            terms[steps[i].slot] = scores[steps[i].local];
          }
        });
    if (!error.empty()) return error;
    // From the root down, as everywhere.
    int64_t slot = 0;
    for (int64_t i = begin; i < end; ++i) {
      const Path& path = paths[i - begin];
      A sum = path.root < 0 ? -std::numeric_limits<A>::infinity()
                            : scorer.Start(i / count, path.root);
      for (int64_t s = path.end; s-- > slot;) sum += terms[s];
      log_probs[i] = sum;
      slot = path.end;
    }
    begin = end;
  }
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(ClassLogProbs, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
