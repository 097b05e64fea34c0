// Checks the best classes: their order and bits are those of all
// log-probabilities, whatever the shape of the search.

#ifndef TF_HSM_CC_CUDA_CHECK_TOP_K_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_TOP_K_CHECK_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/cuda/check/inference_check.h"

namespace tf_hsm::gpu {

// The same tree, whose classes stand in the reverse order.
inline OwnedTree ReverseClasses(OwnedTree tree) {
  std::reverse(tree.class_rows.begin(), tree.class_rows.end());
  std::reverse(tree.ranks.begin(), tree.ranks.end());
  const int64_t last = tree.class_rows.size() - 1;
  for (int64_t& below : tree.row_below) {
    if (below < 0) below = ~(last - ~below);
  }
  return tree;
}

template <typename T>
class TopKCheck {
 public:
  using A = Accumulator<T>;

  explicit TopKCheck(const InferenceCase<T>& c)
      : case_(c),
        classes_(c.tree.num_classes),
        rows_(c.tree.num_rows),
        fanout_(c.batch.shape.max_fanout),
        few_(std::min<int64_t>(classes_, 10)) {}

  // The whole tree at once; pruned from the root on, level by level and group
  // by group, with several blocks per example; with levels at the top that are
  // not pruned.
  void Run() const {
    Batch<T> batch = case_.batch;
    Check("top_k", batch, few_, FitSearch(batch, few_, int64_t{1} << 30));
    batch.size = std::min<int64_t>(case_.size, 3);
    Check("top_k, pruned", batch, few_, {2, fanout_, 0, 3});
    CheckBounds(batch);
    CheckAllowed(batch);
    if (!std::is_same_v<T, float>) return;
    const int64_t most = std::min(classes_, kMaxTopK);
    Check("top_1, pruned", batch, 1, {3, fanout_, 0, 2});
    Check("top_k, some pruned", batch, few_, {3, rows_, rows_ / 3, 1});
    Check("all classes", batch, most, {2, 2 * fanout_, 0, 2});
    CheckNan(batch, most);
    CheckTies(batch);
  }

  // For more than a block takes at once.
  void RunLarge() const {
    const Batch<T>& batch = case_.batch;
    for (int64_t k : {few_, std::min(classes_, kMaxTopK)}) {
      Check("one list", batch, k, {batch.size, rows_, rows_, 1});
      Check("pruned", batch, k, {batch.size, 3 * fanout_, 0, 1});
    }
  }

 private:
  // NaN in the inputs of an example, and in a group.
  void CheckNan(Batch<T> batch, int64_t most) const {
    std::vector<T> w = case_.w, x = case_.x;
    const T nan = Narrow<T>(static_cast<A>(NAN));
    if (batch.size > 0) x[0] = nan;
    w.back() = nan;
    const DeviceArray<T> device_w(w), device_x(x);
    batch.weights = device_w.data();
    batch.inputs = device_x.data();
    Check("NaN, pruned", batch, few_, {3, fanout_, 0, 2});
    Check("NaN, all", batch, most, {2, fanout_, rows_ / 2, 1});
  }

  // All rows of a group are equal. Classes that are found late come first.
  void CheckTies(Batch<T> batch) const {
    const OwnedTree tree = ReverseClasses(case_.owned_tree);
    const DeviceTree device_tree(tree);
    const DeviceArray<T> zeros(std::vector<T>(case_.x.size()));
    batch.tree = device_tree.view();
    batch.inputs = zeros.data();
    batch.biases = nullptr;
    Check("ties, pruned", batch, few_, {3, fanout_, 0, 2});
  }

  // Bounds that some of the best classes reach, all, or none; with rows that
  // are switched off, and one that is NaN.
  void CheckBounds(Batch<T> batch) const {
    std::string error;
    std::vector<T> biases = case_.b;
    biases.resize(case_.tree.num_weight_rows());
    for (size_t r = 4; r < biases.size(); r += 7) {
      biases[r] = Narrow<T>(-static_cast<A>(INFINITY));
    }
    biases[biases.size() / 2] = Narrow<T>(static_cast<A>(NAN));
    const DeviceArray<T> device_biases(biases);
    batch.biases = device_biases.data();
    const std::vector<A> all = case_.LogProbsOf(batch, false, &error);
    std::vector<float> bounds;
    for (int64_t i = 0; i < batch.size; ++i) {
      std::vector<A> own(all.begin() + i * classes_,
                         all.begin() + (i + 1) * classes_);
      for (A& value : own) value = Key(value);
      std::sort(own.begin(), own.end(), std::greater<A>());
      bounds.push_back(i % 3 == 0   ? own[few_ / 3]
                       : i % 3 == 1 ? -static_cast<float>(INFINITY)
                                    : 0.5f);
    }
    const int64_t most = std::min(classes_, kMaxTopK);
    Check("top_k, bounds", batch, few_, {2, fanout_, 0, 2}, bounds);
    Check("all classes, bounds", batch, most, {3, rows_, rows_ / 3, 1}, bounds);
  }

  // A list for all examples and one for each, which are long, short and empty.
  void CheckAllowed(const Batch<T>& batch) const {
    for (const int64_t lists : {int64_t{1}, batch.size}) {
      if (lists == 0) continue;
      RankLists allowed;
      for (int64_t list = 0; list < lists; ++list) {
        const int64_t step = list == 0 ? 3 : list == 1 ? 40 : 2 * classes_ + 2;
        for (int64_t r = step / 2; r < classes_; r += step) {
          allowed.ranks.push_back(r);
        }
        allowed.splits.push_back(allowed.ranks.size());
      }
      const std::string what = lists == 1 ? "allowed" : "allowed, each";
      const int64_t most = std::min(classes_, kMaxTopK);
      Check("top_k, " + what, batch, few_, {2, fanout_, 0, 2}, {}, allowed);
      Check("all classes, " + what, batch, most, {3, rows_, rows_ / 3, 1},
            std::vector<float>(batch.size, -2.5f), allowed);
    }
  }

  static A Key(A value) {
    return std::isnan(value) ? -static_cast<A>(INFINITY) : value;
  }

  // Whether the group of a class is not below a node of minus infinity.
  bool IsReached(const std::vector<A>& nodes, int64_t example,
                 int64_t id) const {
    const TreeView& tree = case_.tree;
    const int64_t group = tree.row_groups[tree.class_rows[id]];
    const int64_t parent = tree.group_parents[group];
    if (parent >= 0) return nodes[example * rows_ + parent] > -INFINITY;
    return case_.StartAt(example, group) > -INFINITY;
  }

  void Check(const std::string& what, const Batch<T>& batch, int64_t k,
             const SearchShape& shape, const std::vector<float>& bounds = {},
             const RankLists& allowed = {}) const {
    std::string error;
    const std::vector<A> all = case_.LogProbsOf(batch, false, &error);
    std::vector<A> nodes;
    if (!bounds.empty()) nodes = case_.LogProbsOf(batch, true, &error);
    const DeviceArray<float> log_probs(batch.size * k);
    const DeviceArray<int64_t> ids(batch.size * k);
    const DeviceBlock scratch(TopKBytes(batch, k, shape));
    const DeviceArray<float> device_bounds(bounds);
    const DeviceArray<int64_t> ranks(allowed.ranks), splits(allowed.splits);
    WantedClasses wanted = {k, nullptr, {}};
    if (!bounds.empty()) wanted.bounds = device_bounds.data();
    const int64_t lists = allowed.splits.size() - 1;  // 0: all are allowed
    if (lists > 0) {
      wanted.allowed = {ranks.data(), splits.data(), lists};
    }
    error += TopK(batch, case_.levels, wanted, shape, log_probs.data(),
                  ids.data(), scratch.data(), CheckStream());
    const std::vector<int64_t> got = ids.Download();
    const std::vector<float> values = log_probs.Download();
    int64_t wrong = 0;
    for (int64_t i = 0; i < batch.size; ++i) {
      const A* own = all.data() + i * classes_;
      std::vector<int64_t> order;
      for (int64_t c = 0; c < classes_; ++c) {
        if ((lists == 0 || allowed.Has(i, case_.tree.class_ranks[c])) &&
            (bounds.empty() ||
             (Key(own[c]) >= bounds[i] && IsReached(nodes, i, c)))) {
          order.push_back(c);
        }
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t c) {
        return Key(own[a]) > Key(own[c]);
      });
      order.resize(std::max<size_t>(order.size(), k), -1);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t want_id = order[j];
        const A want = want_id < 0 ? -static_cast<A>(INFINITY) : own[want_id];
        const float value = values[i * k + j];
        const bool same =
            value == want || (std::isnan(value) && std::isnan(want));
        if (got[i * k + j] != want_id || !same) ++wrong;
      }
    }
    WrongLine(case_.Name(what), error, wrong);
  }

  const InferenceCase<T>& case_;
  const int64_t classes_, rows_, fanout_, few_;
};

// More classes than a block collects; more examples, and more pieces of work,
// than it looks at together.
inline void CheckLargeTopK(std::mt19937* rng) {
  const int64_t most = 300;
  for (const CheckCase& c :
       {CheckCase{"many classes", TwoLevelTree(2100), 2, 3},
        CheckCase{"many in a group", FlatTree(1800), 2, 3},
        CheckCase{"many examples", FlatTree(300), most, 2}}) {
    InferenceCase<float> inference(c, Precision::kExact, rng, most);
    CheckInference(inference);
    TopKCheck<float>(inference).RunLarge();
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_TOP_K_CHECK_H_
