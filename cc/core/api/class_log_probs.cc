#include "cc/core/api/class_log_probs.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cc/core/api/class_path.h"

namespace tf_hsm {
namespace {

// The end of a path in the steps of all paths, and the root that it is below;
// -1 for the path of no class.
struct Path {
  int64_t end;
  int64_t root;
};

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
            AddPath(scorer.tree, "classes", end, classes[end], end / count,
                    &steps, &root);
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
