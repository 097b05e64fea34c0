// Checks log-probabilities and draws.

#ifndef TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/core/testing/draws.h"
#include "cc/core/testing/reference.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm::gpu {

template <typename T>
struct InferenceCase {
  using A = Accumulator<T>;

  // Takes at most `most` examples: more would only take long.
  InferenceCase(const CheckCase& c, Precision the_precision, std::mt19937* rng,
                int64_t most = kMaxPredictions)
      : name(c.name),
        tree(c.owned.view()),
        owned_tree(c.owned),
        device_tree(c.owned),
        precision(the_precision),
        device_levels(c.owned),
        levels(device_levels.levels),
        size(std::min(c.size, most)),
        width(c.width),
        soft_cap(c.soft_cap),
        sigmoids(c.sigmoids),
        w(Draw<T>(tree.num_weight_rows() * width, 32, rng)),
        b(Draw<T>(c.biases ? tree.num_weight_rows() : 0, 64, rng)),
        x(Draw<T>(size * width, 64, rng)),
        starts(DrawStarts<A>(c, size, rng)),
        roots(RootsOfGroups(tree)),
        device_w(w),
        device_b(b),
        device_x(x),
        device_starts(starts),
        batch(BatchOf(device_tree, device_w, c.biases ? &device_b : nullptr,
                      device_x, size, width, precision)) {
    batch.root_log_probs = starts.empty() ? nullptr : device_starts.data();
    batch.logit_soft_cap = soft_cap;
    batch.has_sigmoids = sigmoids;
  }

  std::string Name(const std::string& what) const {
    return LineName<T>(name, size, width, precision, what);
  }

  // Where an example starts in the tree of a group; 0 without starts.
  A StartAt(int64_t example, int64_t group) const {
    return starts.empty() ? A(0)
                          : starts[example * tree.num_roots + roots[group]];
  }

  // The slopes of the soft cap at all logits, [size, rows]; 1 without one.
  std::vector<double> Slopes() const {
    const std::vector<double> weights = ToDoubles(w), biases = ToDoubles(b);
    const std::vector<double> inputs = ToDoubles(x);
    std::vector<double> slopes(size * tree.num_rows, 1);
    for (size_t i = 0; i < slopes.size() && soft_cap > 0; ++i) {
      const double z =
          ReferenceLogit(tree, width, weights.data(), DataOrNull(biases),
                         inputs.data() + i / tree.num_rows * width,
                         i % tree.num_rows, soft_cap);
      slopes[i] = 1 - z * z / (soft_cap * soft_cap);
    }
    return slopes;
  }

  // [size, columns], all examples at a time.
  std::vector<A> LogProbsOf(const Batch<T>& of, bool of_nodes,
                            std::string* error) const {
    const int64_t columns = of_nodes ? tree.num_rows : tree.num_classes;
    const int64_t chunk = std::max<int64_t>(of.size, 1);
    const DeviceArray<A> values(of.size * columns);
    const DeviceArray<A> groups(of.size * tree.num_groups);
    const DeviceBlock scratch(LogProbsBytes(of, of_nodes, chunk));
    *error +=
        LogProbs<T>(of, levels, chunk, {of_nodes, values.data(), groups.data()},
                    scratch.data(), CheckStream());
    return values.Download();
  }

  // From the scalar reference, [size, rows].
  std::vector<double> WantedLogProbs(bool with_starts) const {
    return ReferenceBatchLogProbs(
        tree, size, width, ToDoubles(w), ToDoubles(b), ToDoubles(x),
        with_starts ? ToDoubles(starts) : std::vector<double>(), soft_cap,
        sigmoids);
  }

  const std::string name;
  const TreeView tree;  // on the host
  const OwnedTree& owned_tree;
  const DeviceTree device_tree;
  const Precision precision;
  const DeviceLevels device_levels;
  const Levels& levels;
  const int64_t size, width;
  const double soft_cap;
  const bool sigmoids;
  const std::vector<T> w, b, x;
  const std::vector<A> starts;       // [size, roots], or none
  const std::vector<int64_t> roots;  // the numbers of the groups' trees
  const DeviceArray<T> device_w, device_b, device_x;
  const DeviceArray<A> device_starts;
  Batch<T> batch;
};

template <typename T>
void CheckLogProbs(const InferenceCase<T>& c, const Batch<T>& batch,
                   const std::string& what) {
  using A = Accumulator<T>;
  std::string error;
  const std::vector<A> nodes = c.LogProbsOf(batch, true, &error);
  const std::vector<A> classes = c.LogProbsOf(batch, false, &error);
  const std::vector<double> want =
      c.WantedLogProbs(batch.root_log_probs != nullptr);
  Errors of_nodes, of_classes;
  of_nodes.AddAll(nodes, want);
  for (size_t at = 0; at < classes.size(); ++at) {
    const int64_t row = c.tree.class_rows[at % c.tree.num_classes];
    of_classes.Add(classes[at],
                   want[at / c.tree.num_classes * c.tree.num_rows + row]);
  }
  Line(c.Name(what),
       error.empty() &&
           std::max(of_nodes.worst, of_classes.worst) <=
               ToleranceOf<T>(c.precision, c.width, c.batch.shape.depth),
       error + TextOf({{"nodes", of_nodes}, {"classes", of_classes}}));
}

// Rounding may move a uniform number out of the share that it falls on.
template <typename T>
void CheckSample(const InferenceCase<T>& c) {
  using A = Accumulator<T>;
  constexpr int64_t kSamples = 2;
  constexpr double kSlack = 1e-4;
  SampleArguments arguments;
  arguments.num_samples = kSamples;
  arguments.seed_0 = 5;
  arguments.seed_1 = uint64_t{1} << 40;
  const DeviceArray<int64_t> classes(c.size * kSamples);
  const DeviceBlock scratch(SampleBytes(c.batch, arguments));
  const std::string error = Sample(c.batch, c.levels, arguments, classes.data(),
                                   scratch.data(), CheckStream());
  const std::vector<int64_t> got = classes.Download();
  const std::vector<double> nodes = c.WantedLogProbs(false);
  const Uniform uniform(arguments.seed_0, arguments.seed_1);
  int64_t wrong = 0;
  for (int64_t draw = 0; draw < c.size * kSamples; ++draw) {
    const int64_t example = draw / kSamples;
    double log_sum = 0;
    std::vector<double> shares;
    if (!c.starts.empty()) {
      const auto own = c.starts.begin() + example * c.tree.num_roots;
      shares = SharesOfRoots<A>({own, own + c.tree.num_roots}, &log_sum);
    }
    if (log_sum == -INFINITY) {
      wrong += got[draw] != -1;
      continue;
    }
    wrong += MissOfDraw(c.tree, nodes.data() + example * c.tree.num_rows,
                        shares, uniform, draw, got[draw]) > kSlack;
  }
  WrongLine(c.Name("sample"), error, wrong);
}

template <typename T>
void CheckInference(const InferenceCase<T>& c) {
  if (c.tree.num_roots > 1) {
    Batch<T> batch = c.batch;
    batch.root_log_probs = nullptr;
    CheckLogProbs(c, batch, "log_probs without starts");
  }
  CheckLogProbs(c, c.batch, "log_probs");
  CheckSample(c);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_INFERENCE_CHECK_H_
