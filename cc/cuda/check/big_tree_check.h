// Checks a tree whose weights have more than 2^31 numbers, of which the host
// holds none: they are a hash of their place. It makes again the losses and dx
// of some examples, and the gradients of some rows of the first and of the last
// group.

#ifndef TF_HSM_CC_CUDA_CHECK_BIG_TREE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_BIG_TREE_CHECK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm::gpu {

// The weight at an index, exact in every type: a multiple of 1/64.
TF_HSM_HOST_DEVICE float HashedWeight(int64_t i) {
  const uint64_t h = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  return (static_cast<int>((h ^ (h >> 29)) >> 32 & 31) - 16) * (1.0f / 64);
}

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
FillHashed(T* weights, int64_t count) {
  for (int64_t i = GlobalIndex(); i < count; i += NumBlocks() * NumThreads()) {
    weights[i] = Narrow<T>(HashedWeight(i));
  }
}

template <typename T>
class BigTreeCheck {
 public:
  using A = Accumulator<T>;

  BigTreeCheck(int64_t classes, int64_t size, int64_t width, std::mt19937* rng)
      : tree_(TwoLevelTree(classes)),
        view_(tree_.view()),
        width_(width),
        x_(Draw<float>(size * width, 64, rng)) {
    for (int64_t i = 0; i < size; ++i) {
      const int64_t near = static_cast<int64_t>((*rng)() % 3);
      // Some in the last group, some in the first; others anywhere.
      labels_.push_back(i < 6    ? classes - 1 - near
                        : i < 10 ? near
                                 : static_cast<int64_t>((*rng)() % classes));
      grads_.push_back((1 + i % 3) / A(4));
    }
  }

  void Run() const {
    const int64_t size = labels_.size(), count = view_.num_rows * width_;
    const DeviceTree tree(tree_);
    const DeviceArray<T> weights(count);
    Launch(FillHashed<T>, Larger<int64_t>(1, Smaller<int64_t>(count, 4096)),
           kBlockThreads, 0, CheckStream(), weights.data(), count);
    const DeviceArray<float> x(x_);
    const DeviceArray<int64_t> labels(labels_);
    const DeviceArray<A> grads(grads_);
    const DeviceArray<T>* no_biases = nullptr;
    Batch<T> batch =
        BatchOf(tree, weights, no_biases, x, size, width_, Precision::kExact);
    batch.labels = labels.data();
    constexpr int64_t kLogits = int64_t{1} << 30;
    const DeviceMemory blocks(batch, kLogits);
    const Memory& memory = blocks.memory;
    const std::vector<int64_t> want_rows = TouchedRows();
    const int64_t capacity = want_rows.size() + 2;
    const DeviceOutputs<T> out(batch, capacity);
    std::string error = out.RunForward(batch, memory, CheckStream());
    error += Backward<T>(batch, memory, grads.data(),
                         {capacity, out.rows.data(), out.dw.data(), nullptr},
                         CheckStream());
    std::vector<int64_t> got_rows = out.rows.Download();
    if (got_rows[capacity - 1] != -1 || got_rows[capacity - 2] != -1) {
      error += "no -1 past the rows ";
    }
    got_rows.resize(want_rows.size());
    if (got_rows != want_rows) error += "wrong rows ";
    Errors losses, inputs, gradients;
    const std::vector<A> got_loss = out.loss.Download();
    const std::vector<A> got_dx = out.dx.Download();
    // From the largest offsets on, as the labels of the constructor are.
    for (int64_t i = 0; i < std::min<int64_t>(size, 16); ++i) {
      std::vector<double> want(width_);
      losses.Add(got_loss[i], PathOf(i).AddLoss(width_, x_.data() + i * width_,
                                                1, want.data(), nullptr));
      for (int64_t d = 0; d < width_; ++d) {
        inputs.Add(got_dx[i * width_ + d], want[d]);
      }
    }
    for (const int64_t i : {0, 6})
      AddGradients(i, want_rows, out.dw, &gradients);
    const double tolerance = ToleranceOf<T>(Precision::kExact, width_, 2);
    const double store = RoundingOf<T>().store;
    Line(LineName<T>("numbers 2^" + std::to_string(BitsOf(count)), size, width_,
                     Precision::kExact, ""),
         error.empty() && losses.worst <= tolerance &&
             inputs.worst <= tolerance &&
             gradients.worst <= (tolerance + store) * std::sqrt(size),
         error + TextOf({{"loss", losses}, {"dx", inputs}, {"dw", gradients}}));
  }

 private:
  static int BitsOf(int64_t count) {
    int bits = 0;
    while (count >> (bits + 1) != 0) ++bits;
    return bits;
  }

  // The groups of an example's path, as a tree of their own.
  struct Path {
    OwnedTree tree;
    std::vector<double> w;
    int64_t label;

    // As ReferenceLoss.
    double AddLoss(int64_t width, const float* x, double g, double* dx,
                   double* dw) const {
      const std::vector<double> inputs(x, x + width);
      return ReferenceLoss(tree.view(), width, w.data(), nullptr, inputs.data(),
                           label, g, dx, dw, nullptr);
    }
  };

  Path PathOf(int64_t example) const {
    const int64_t row = view_.class_rows[labels_[example]];
    const int64_t group = view_.row_groups[row];
    const int64_t root = view_.group_offsets[1];
    const int64_t first = view_.group_offsets[group];
    const int64_t fanout = view_.group_offsets[group + 1] - first;
    Path path;
    path.tree = GrowTree(root, [&](int64_t depth, int64_t k, int64_t) {
      return depth == 0 && k == view_.group_parents[group] ? fanout : 0;
    });
    // The leaves of the root's group come first.
    path.label = root - 1 + row - first;
    for (int64_t r = 0; r < root + fanout; ++r) {
      const int64_t from = (r < root ? r : first + r - root) * width_;
      for (int64_t d = 0; d < width_; ++d) {
        path.w.push_back(HashedWeight(from + d));
      }
    }
    return path;
  }

  int64_t GroupOf(int64_t example) const {
    return view_.row_groups[view_.class_rows[labels_[example]]];
  }

  std::vector<int64_t> TouchedRows() const {
    std::set<int64_t> groups = {0};
    for (size_t i = 0; i < labels_.size(); ++i) groups.insert(GroupOf(i));
    std::vector<int64_t> rows;
    for (int64_t group : groups) {
      for (int64_t row = view_.group_offsets[group];
           row < view_.group_offsets[group + 1]; ++row) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  // Compares dw of the group of an example.
  void AddGradients(int64_t example, const std::vector<int64_t>& rows,
                    const DeviceArray<T>& dw, Errors* errors) const {
    const int64_t first = view_.group_offsets[GroupOf(example)];
    std::vector<double> want;
    for (size_t i = 0; i < labels_.size(); ++i) {
      if (GroupOf(i) != GroupOf(example)) continue;
      const Path path = PathOf(i);
      want.resize(path.w.size());
      path.AddLoss(width_, x_.data() + i * width_, grads_[i], nullptr,
                   want.data());
    }
    want.erase(want.begin(), want.begin() + view_.group_offsets[1] * width_);
    const int64_t place =
        std::lower_bound(rows.begin(), rows.end(), first) - rows.begin();
    std::vector<T> got(want.size());
    DeviceBlock::Download(dw.data() + place * width_, got.size() * sizeof(T),
                          got.data());
    errors->AddAll(got, want);
  }

  const OwnedTree tree_;
  const TreeView view_;
  const int64_t width_;
  const std::vector<float> x_;
  std::vector<int64_t> labels_;
  std::vector<A> grads_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_BIG_TREE_CHECK_H_
