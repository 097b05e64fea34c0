// What the checks of the kernels share: forests, trees on the device, cases,
// errors and lines of output.

#ifndef TF_HSM_CC_CUDA_CHECK_CHECK_SUPPORT_H_
#define TF_HSM_CC_CUDA_CHECK_CHECK_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/testing/test_support.h"
#include "cc/core/testing/trees.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"
#include "cc/cuda/device/device_array.h"

namespace tf_hsm::gpu {

// Trees of all kinds, one of a single class among them.
inline OwnedTree MixedForest(std::mt19937* rng) {
  return JoinTrees({BinaryTree(3), FlatTree(1), TwoLevelTree(70), FlatTree(45),
                    ChainTree(6, 3), RandomTree(9, 20, 0.3, rng)},
                   rng);
}

// `count` small trees.
inline OwnedTree WideForest(int64_t count, std::mt19937* rng) {
  std::vector<OwnedTree> trees;
  for (int64_t i = 0; i < count; ++i) {
    trees.push_back(i % 3 == 0 ? FlatTree(2 + i % 13) : SkewedTree(3, rng));
  }
  return JoinTrees(trees, rng);
}

// A tree's arrays on the device.
struct DeviceTree {
  explicit DeviceTree(const OwnedTree& tree) : DeviceTree(tree, tree.view()) {}
  // Takes arrays that may be wrong, and the sizes of `view`.
  DeviceTree(const OwnedTree& tree, const TreeView& view)
      : offsets(tree.offsets),
        parents(tree.parents),
        class_rows(tree.class_rows),
        row_groups(tree.row_groups),
        ranks(tree.ranks),
        below(tree.row_below),
        host(view) {}

  TreeView view() const {
    return {host.num_classes,  host.num_rows,  host.num_groups,
            offsets.data(),    parents.data(), class_rows.data(),
            row_groups.data(), ranks.data(),   below.data(),
            host.num_roots,    nullptr,        host.pinned};
  }

  DeviceArray<int64_t> offsets, parents, class_rows, row_groups, ranks, below;
  TreeView host;
};

// A batch without labels. The arrays are on the device; `biases` may be null.
template <typename T, typename X>
Batch<T> BatchOf(const DeviceTree& tree, const DeviceArray<T>& weights,
                 const DeviceArray<T>* biases, const DeviceArray<X>& inputs,
                 int64_t size, int64_t width, Precision precision) {
  Batch<T> batch;
  batch.tree = tree.view();
  batch.shape = DescribeTree(tree.host);
  batch.weights = weights.data();
  batch.biases = biases == nullptr ? nullptr : biases->data();
  batch.width = width;
  batch.inputs = inputs.data();
  batch.input_type = kElementType<X>;
  batch.size = size;
  batch.precision = precision;
  return batch;
}

// A forest's levels, on the device too.
struct DeviceLevels {
  explicit DeviceLevels(const OwnedTree& tree)
      : levels(MakeLevels(tree.view(), &numbers)), device(numbers) {
    if (!numbers.empty()) {
      levels.places = PlacesIn(tree.view(), device.data());
    }
  }
  DeviceLevels(const DeviceLevels&) = delete;

  std::vector<int64_t> numbers;
  Levels levels;
  const DeviceArray<int64_t> device;
};

// Work that a case is named for; see plan_facts.h.
enum Needs {
  kHot = 1,
  kTwoParts = 2,     // a node whose logits have room in part
  kCutRows = 4,      // pieces that WalkPaths merges
  kCutExamples = 8,  // pieces that MergeRows adds up
  kSlabs = 16,       // of the kernels that are not hot
  kNotHot = 32,      // work for these
  kHalfItems = 64,   // items of the forward of fewer than 32 examples
  kChunks = 128,     // that a batch is cut into
};

struct CheckCase {
  std::string name;
  OwnedTree owned;  // the tree
  int64_t size;
  int64_t width;
  int needs = 0;  // `Needs`, the work that the plan must have
  bool biases = true;
  int64_t classes = 0;              // that labels are drawn from; 0: all
  int64_t logits = 1 << 20;         // bytes that are kept
  int64_t shared_bytes = 76 << 10;  // of a block, in the emulation
  bool only_float = false;          // other types would take the host minutes
  bool starts = false;  // of walks down, in a tree; a forest has them anyway
  double soft_cap = 0;  // of the logits; 0: none
  double z_loss = 0;
  bool sigmoids = false;  // of a label tree, in predictions

  CheckCase& WithoutBiases() {
    biases = false;
    return *this;
  }
  CheckCase& WithStarts() {
    starts = true;
    return *this;
  }
  CheckCase& Capped(double cap) {
    soft_cap = cap;
    return *this;
  }
  CheckCase& ZLoss(double factor) {
    z_loss = factor;
    return *this;
  }
  CheckCase& OnlyFloat() {
    only_float = true;
    return *this;
  }
  CheckCase& Classes(int64_t count) {
    classes = count;
    return *this;
  }
  CheckCase& Logits(int64_t bytes) {
    logits = bytes;
    return *this;
  }
  // The emulation has so much shared memory, and needs this work then.
  CheckCase& Emulated(int64_t bytes, [[maybe_unused]] int more_needs) {
    shared_bytes = bytes;
#ifndef __CUDACC__
    needs |= more_needs;
#endif
    return *this;
  }
};

// The root_log_probs [size, roots] of a case, none where it has none. Some
// roots, and all of some examples, cannot be reached.
template <typename A>
std::vector<A> DrawStarts(const CheckCase& c, int64_t size, std::mt19937* rng) {
  const int64_t roots = c.owned.view().num_roots;
  std::vector<A> starts;
  if (roots == 1 && !c.starts) return starts;
  for (int64_t i = 0; i < size * roots; ++i) {
    const int64_t example = i / roots;
    const bool none = (*rng)() % 4 == 0 || example % 11 == 8;
    starts.push_back(none ? -static_cast<A>(INFINITY)
                          : -static_cast<A>((*rng)() % 64) / 16);
  }
  return starts;
}

// The stream that a thread of the host checks on.
inline void* CheckStream() {
  static thread_local const DeviceStream stream;
  return stream.Use();
}

// Examples of a check of predictions: more would only take long.
constexpr int64_t kMaxPredictions = 33;

// The largest error relative to 1 + |want|; infinite if one is NaN alone.
struct Errors {
  double worst = 0;
  void Add(double got, double want) {
    if (got == want || (std::isnan(got) && std::isnan(want))) return;
    const double error = std::fabs(got - want) / (1 + std::fabs(want));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  template <typename V>
  void AddAll(const std::vector<V>& got, const std::vector<double>& want) {
    if (got.size() != want.size()) worst = INFINITY;
    for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
      Add(ToDouble(got[i]), want[i]);
    }
  }
};

inline int num_failed = 0;
inline int num_lines = 0;

inline void Line(const std::string& name, bool good, const std::string& what) {
  ++num_lines;
  num_failed += good ? 0 : 1;
  std::printf("%-6s %-52s %s\n", good ? "ok" : "FAILED", name.c_str(),
              what.c_str());
  std::fflush(stdout);
}

template <typename T>
std::string NameOf(Precision precision) {
  const std::string name = sizeof(T) == 8                     ? "float64"
                           : sizeof(T) == 4                   ? "float32"
                           : std::is_same<T, bfloat16>::value ? "bfloat16"
                                                              : "float16";
  return precision == Precision::kExact ? name : name + "-mma";
}

// The name of a line of output.
template <typename T>
std::string LineName(const std::string& name, int64_t size, int64_t width,
                     Precision precision, const std::string& what) {
  return name + " B=" + std::to_string(size) + " D=" + std::to_string(width) +
         " " + NameOf<T>(precision) + " " + what;
}

// The line of a check that counts what is wrong.
inline void WrongLine(const std::string& name, const std::string& error,
                      int64_t wrong) {
  Line(name, error.empty() && wrong == 0,
       error + std::to_string(wrong) + " wrong");
}

// The largest errors of the named parts.
inline std::string TextOf(
    const std::vector<std::pair<const char*, Errors>>& parts) {
  std::string text;
  for (const auto& [part, errors] : parts) {
    char number[64];
    std::snprintf(number, sizeof(number), "%s %.1e  ", part, errors.worst);
    text += number;
  }
  return text;
}

// Errors of losses and of sums of `depth` times `width` terms of about 1.
template <typename T>
double ToleranceOf(Precision precision, double width, double depth) {
  const auto [store, sum] = RoundingOf<T>();
  // An operand of tensor cores is a tf32, or a number of the type.
  const double operand = precision == Precision::kExact ? sum
                         : sizeof(T) == 4               ? 0x1p-12
                                                        : store / 2;
  return (2 * operand * (std::sqrt(width) + 8) + sum * (8 * width + 256)) *
         std::sqrt(depth);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_CHECK_SUPPORT_H_
