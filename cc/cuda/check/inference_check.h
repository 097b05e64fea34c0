// Checks log-probabilities and draws.

#ifndef TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/core/testing/reference.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/inference_case.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class InferenceCheck {
 public:
  using A = Accumulator<T>;

  explicit InferenceCheck(const InferenceCase<T>& c)
      : case_(c), tree_(c.tree), size_(c.size) {}

  void Run() {
    CheckLogProbs();
    CheckSample();
  }

 private:
  void CheckLogProbs() {
    const std::vector<double> w = ToDoubles(case_.w), b = ToDoubles(case_.b),
                              x = ToDoubles(case_.x);
    reference_.resize(size_ * tree_.num_rows);
    std::string error;
    const std::vector<A> nodes = case_.LogProbsOf(case_.batch, true, &error);
    const std::vector<A> classes = case_.LogProbsOf(case_.batch, false, &error);
    Errors of_nodes, of_classes;
    for (int64_t i = 0; i < size_; ++i) {
      double* want = reference_.data() + i * tree_.num_rows;
      ReferenceLogProbs(tree_, case_.width, w.data(),
                        b.empty() ? nullptr : b.data(),
                        x.data() + i * case_.width, want);
      for (int64_t r = 0; r < tree_.num_rows; ++r) {
        of_nodes.Add(nodes[i * tree_.num_rows + r], want[r]);
      }
      for (int64_t c = 0; c < tree_.num_classes; ++c) {
        of_classes.Add(classes[i * tree_.num_classes + c],
                       want[tree_.class_rows[c]]);
      }
    }
    const double worst = std::max(of_nodes.worst, of_classes.worst);
    char text[64];
    std::snprintf(text, sizeof(text), "nodes %.1e  classes %.1e",
                  of_nodes.worst, of_classes.worst);
    Line(case_.Name("log_probs"),
         error.empty() && worst <= ToleranceOf<T>(case_.precision, case_.width,
                                                  case_.batch.shape.depth),
         error + text);
  }

  // Each level's uniform number must lie in the share of the row that was
  // drawn, but for rounding.
  void CheckSample() {
    constexpr int64_t kSamples = 2;
    SampleArguments arguments;
    arguments.num_samples = kSamples;
    arguments.seed_0 = 5;
    arguments.seed_1 = uint64_t{1} << 40;
    const DeviceArray<int64_t> classes(size_ * kSamples);
    const DeviceBlock scratch(SampleBytes(case_.batch, arguments));
    const std::string error = Sample(case_.batch, arguments, classes.data(),
                                     scratch.data(), CheckStream());
    const std::vector<int64_t> got = classes.Download();
    const Uniform uniform(arguments.seed_0, arguments.seed_1);
    const double slack = 1e-4;
    int64_t wrong = 0;
    for (int64_t draw = 0; draw < size_ * kSamples; ++draw) {
      if (got[draw] < 0 || got[draw] >= tree_.num_classes) {
        ++wrong;
        continue;
      }
      const double* nodes =
          reference_.data() + draw / kSamples * tree_.num_rows;
      std::vector<int64_t> path;
      for (int64_t row = tree_.class_rows[got[draw]]; row >= 0;
           row = tree_.group_parents[tree_.row_groups[row]]) {
        path.push_back(row);
      }
      std::reverse(path.begin(), path.end());
      for (size_t depth = 0; depth < path.size(); ++depth) {
        const double above = depth == 0 ? 0 : nodes[path[depth - 1]];
        const int64_t first =
            tree_.group_offsets[tree_.row_groups[path[depth]]];
        double before = 0;
        for (int64_t r = first; r < path[depth]; ++r) {
          before += std::exp(nodes[r] - above);
        }
        const double after = before + std::exp(nodes[path[depth]] - above);
        const double u = uniform.At(draw, depth);
        if (u < before - slack || u > after + slack) ++wrong;
      }
    }
    Line(case_.Name("sample"), error.empty() && wrong == 0,
         error + WrongText(wrong));
  }

  const InferenceCase<T>& case_;
  const TreeView& tree_;
  const int64_t size_;
  std::vector<double> reference_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
