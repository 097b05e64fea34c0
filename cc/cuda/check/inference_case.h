// What checks of predictions are made on.

#ifndef TF_HSM_CC_CUDA_CHECK_INFERENCE_CASE_H_
#define TF_HSM_CC_CUDA_CHECK_INFERENCE_CASE_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

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

  // Of an example, in the tree of a group; 0 where there are none.
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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_INFERENCE_CASE_H_
