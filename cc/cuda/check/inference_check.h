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
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
struct InferenceCase {
  using A = Accumulator<T>;

  // Takes at most `most` examples: more would only take long.
  InferenceCase(const CheckCase& c, Precision the_precision, std::mt19937* rng,
                int64_t most = kMaxPredictions)
      : name(c.name),
        tree(c.tree.view()),
        owned_tree(c.tree),
        device_tree(c.tree),
        precision(the_precision),
        device_levels(c.tree),
        levels(device_levels.levels),
        size(std::min(c.size, most)),
        width(c.width),
        w(Draw<T>(tree.num_weight_rows() * width, 32, rng)),
        b(Draw<T>(c.biases ? tree.num_weight_rows() : 0, 64, rng)),
        x(Draw<T>(size * width, 64, rng)),
        starts(DrawStarts<A>(c, size, rng)),
        roots(RootsOfGroups(tree)),
        device_w(w),
        device_b(b),
        device_x(x),
        device_starts(starts) {
    batch.tree = device_tree.view();
    batch.shape = DescribeTree(tree);
    batch.weights = device_w.data();
    batch.biases = c.biases ? device_b.data() : nullptr;
    batch.width = width;
    batch.inputs = device_x.data();
    batch.input_type = kElementType<T>;
    batch.size = size;
    batch.precision = precision;
    batch.root_log_probs = starts.empty() ? nullptr : device_starts.data();
  }

  std::string Name(const std::string& what) const {
    return LineName<T>(name, size, width, precision, what);
  }

  // Where an example starts in the tree of a group; 0 without starts.
  A StartAt(int64_t example, int64_t group) const {
    return starts.empty() ? A(0)
                          : starts[example * tree.num_roots + roots[group]];
  }

  // [size, columns]
  std::vector<A> LogProbsOf(const Batch<T>& of, bool of_nodes,
                            std::string* error) const {
    const int64_t columns = of_nodes ? tree.num_rows : tree.num_classes;
    const DeviceArray<A> out(of.size * columns);
    const DeviceBlock scratch(LogProbsBytes(of, of_nodes));
    *error += LogProbs(of, levels, of_nodes, out.data(), scratch.data(),
                       CheckStream());
    return out.Download();
  }

  const std::string name;
  const TreeView tree;  // on the host
  const OwnedTree& owned_tree;
  const DeviceTree device_tree;
  const Precision precision;
  const DeviceLevels device_levels;
  const Levels& levels;
  const int64_t size, width;
  const std::vector<T> w, b, x;
  const std::vector<A> starts;       // [size, roots], or none
  const std::vector<int64_t> roots;  // the numbers of the groups' trees
  const DeviceArray<T> device_w, device_b, device_x;
  const DeviceArray<A> device_starts;
  Batch<T> batch;
};

template <typename T>
class InferenceCheck {
 public:
  using A = Accumulator<T>;

  explicit InferenceCheck(const InferenceCase<T>& c)
      : case_(c), tree_(c.tree), size_(c.size) {}

  void Run() {
    if (tree_.num_roots > 1) {
      Batch<T> batch = case_.batch;
      batch.root_log_probs = nullptr;
      CheckLogProbs(batch, "log_probs without starts");
    }
    CheckLogProbs(case_.batch, "log_probs");
    CheckSample();
  }

 private:
  void CheckLogProbs(const Batch<T>& batch, const std::string& what) {
    const std::vector<double> w = ToDoubles(case_.w), b = ToDoubles(case_.b),
                              x = ToDoubles(case_.x);
    reference_.resize(size_ * tree_.num_rows);
    std::string error;
    const std::vector<A> nodes = case_.LogProbsOf(batch, true, &error);
    const std::vector<A> classes = case_.LogProbsOf(batch, false, &error);
    Errors of_nodes, of_classes;
    for (int64_t i = 0; i < size_; ++i) {
      double* want = reference_.data() + i * tree_.num_rows;
      ReferenceLogProbs(tree_, case_.width, w.data(), DataOrNull(b),
                        x.data() + i * case_.width, want);
      for (int64_t r = 0; r < tree_.num_rows; ++r) {
        if (batch.root_log_probs != nullptr) {
          want[r] += case_.StartAt(i, tree_.row_groups[r]);
        }
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
    Line(case_.Name(what),
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
    const std::string error =
        Sample(case_.batch, case_.levels, arguments, classes.data(),
               scratch.data(), CheckStream());
    const std::vector<int64_t> got = classes.Download();
    const Uniform uniform(arguments.seed_0, arguments.seed_1);
    const double slack = 1e-4;
    int64_t wrong = 0;
    const bool with_roots = !case_.starts.empty();
    auto check_share = [&](double before, double share, double u) {
      if (u < before - slack || u > before + share + slack) ++wrong;
    };
    for (int64_t draw = 0; draw < size_ * kSamples; ++draw) {
      const A* starts = case_.starts.data() + draw / kSamples * tree_.num_roots;
      double total = with_roots ? 0 : 1;
      for (int64_t r = 0; with_roots && r < tree_.num_roots; ++r) {
        total += std::exp(static_cast<double>(starts[r]));
      }
      if (total == 0 || got[draw] < 0 || got[draw] >= tree_.num_classes) {
        if (total > 0 || got[draw] != -1) ++wrong;
        continue;
      }
      if (with_roots) {
        const int64_t root =
            case_.roots[tree_.row_groups[tree_.class_rows[got[draw]]]];
        double before = 0;
        for (int64_t r = 0; r < root; ++r) {
          before += std::exp(static_cast<double>(starts[r]));
        }
        check_share(before / total,
                    std::exp(static_cast<double>(starts[root])) / total,
                    uniform.At(draw, 0));
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
        const int64_t group = tree_.row_groups[path[depth]];
        const double above = depth > 0 ? nodes[path[depth - 1]]
                                       : case_.StartAt(draw / kSamples, group);
        const int64_t first = tree_.group_offsets[group];
        double before = 0;
        for (int64_t r = first; r < path[depth]; ++r) {
          before += std::exp(nodes[r] - above);
        }
        check_share(before, std::exp(nodes[path[depth]] - above),
                    uniform.At(draw, depth + (with_roots ? 1 : 0)));
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
