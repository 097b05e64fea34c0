// Checks log-probabilities, the best classes and draws.

#ifndef TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/core/testing/reference.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class InferenceCheck {
 public:
  using A = Accumulator<T>;

  InferenceCheck(const CheckCase& c, Precision precision, std::mt19937* rng)
      : case_(c),
        tree_(c.tree.view()),
        device_tree_(c.tree),
        precision_(precision),
        levels_(LevelStarts(c.tree)),
        size_(std::min(c.size, kMaxPredictions)),
        w_(Draw<T>(tree_.num_rows * c.width, 32, rng)),
        b_(Draw<T>(tree_.num_rows, 64, rng)),
        x_(Draw<T>(size_ * c.width, 64, rng)),
        device_w_(w_),
        device_b_(b_),
        device_x_(x_) {
    batch_.tree = device_tree_.view();
    batch_.shape = DescribeTree(tree_);
    batch_.weights = device_w_.data();
    batch_.biases = c.biases ? device_b_.data() : nullptr;
    batch_.width = c.width;
    batch_.inputs = device_x_.data();
    batch_.input_type = kElementType<T>;
    batch_.size = size_;
    batch_.precision = precision;
  }

  void Run() {
    CheckLogProbs();
    if constexpr (kSumsInFloat<T>) CheckTopK();
    CheckSample();
  }

 private:
  std::string Name(const std::string& what) const {
    return LineName<T>(case_.name, size_, case_.width, precision_, what);
  }

  std::vector<A> LogProbsOf(bool of_nodes, std::string* error) const {
    const int64_t columns = of_nodes ? tree_.num_rows : tree_.num_classes;
    const DeviceArray<A> out(size_ * columns);
    const DeviceBlock scratch(LogProbsBytes(batch_, of_nodes));
    *error += LogProbs(batch_, levels_, of_nodes, out.data(), scratch.data(),
                       CheckStream());
    return out.Download();
  }

  void CheckLogProbs() {
    const std::vector<double> w = ToDoubles(w_), b = ToDoubles(b_),
                              x = ToDoubles(x_);
    reference_.resize(size_ * tree_.num_rows);
    std::string error;
    const std::vector<A> nodes = LogProbsOf(true, &error);
    class_log_probs_ = LogProbsOf(false, &error);
    Errors of_nodes, of_classes;
    for (int64_t i = 0; i < size_; ++i) {
      double* want = reference_.data() + i * tree_.num_rows;
      ReferenceLogProbs(tree_, case_.width, w.data(),
                        case_.biases ? b.data() : nullptr,
                        x.data() + i * case_.width, want);
      for (int64_t r = 0; r < tree_.num_rows; ++r) {
        of_nodes.Add(nodes[i * tree_.num_rows + r], want[r]);
      }
      for (int64_t c = 0; c < tree_.num_classes; ++c) {
        of_classes.Add(class_log_probs_[i * tree_.num_classes + c],
                       want[tree_.class_rows[c]]);
      }
    }
    const double worst = std::max(of_nodes.worst, of_classes.worst);
    char text[64];
    std::snprintf(text, sizeof(text), "nodes %.1e  classes %.1e",
                  of_nodes.worst, of_classes.worst);
    Line(Name("log_probs"),
         error.empty() && worst <= ToleranceOf<T>(precision_, case_.width,
                                                  batch_.shape.depth),
         error + text);
  }

  // The order is exact, given the log-probabilities.
  void CheckTopK() {
    const int64_t k = std::min<int64_t>(tree_.num_classes, 10);
    const DeviceArray<float> log_probs(size_ * k);
    const DeviceArray<int64_t> classes(size_ * k);
    const int64_t chunk = 7;
    const DeviceBlock scratch(TopKBytes(batch_, chunk));
    const std::string error =
        TopK(batch_, levels_, k, chunk, log_probs.data(), classes.data(),
             scratch.data(), CheckStream());
    const std::vector<int64_t> got = classes.Download();
    const std::vector<float> values = log_probs.Download();
    int64_t wrong = 0;
    for (int64_t i = 0; i < size_; ++i) {
      const A* own = class_log_probs_.data() + i * tree_.num_classes;
      std::vector<int64_t> order(tree_.num_classes);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t c) { return own[a] > own[c]; });
      for (int64_t j = 0; j < k; ++j) {
        const int64_t id = got[i * k + j];
        if (id != order[j] || values[i * k + j] != own[order[j]]) ++wrong;
      }
    }
    Line(Name("top_k"), error.empty() && wrong == 0, error + WrongText(wrong));
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
    const DeviceBlock scratch(SampleBytes(batch_, arguments));
    const std::string error = Sample(batch_, arguments, classes.data(),
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
    Line(Name("sample"), error.empty() && wrong == 0, error + WrongText(wrong));
  }

  const CheckCase& case_;
  const TreeView tree_;
  const DeviceTree device_tree_;
  const Precision precision_;
  const std::vector<int64_t> levels_;
  const int64_t size_;
  const std::vector<T> w_, b_, x_;
  const DeviceArray<T> device_w_, device_b_, device_x_;
  Batch<T> batch_;
  std::vector<double> reference_;
  std::vector<A> class_log_probs_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
