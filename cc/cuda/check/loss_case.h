// One case of the checks of the loss: what the device gets, and what the
// reference says about it.

#ifndef TF_HSM_CC_CUDA_CHECK_LOSS_CASE_H_
#define TF_HSM_CC_CUDA_CHECK_LOSS_CASE_H_

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/testing/reference.h"
#include "cc/cuda/check/check_support.h"

namespace tf_hsm::gpu {

template <typename T>
struct LossCase : CheckCase {
  using A = Accumulator<T>;
  static constexpr int64_t kIgnored = -1;

  // Draws weights, inputs and labels; some of them are ignored, some wrong.
  LossCase(const CheckCase& c, Precision given_precision, std::mt19937* rng)
      : CheckCase(c),
        tree(owned.view()),
        device_tree(new DeviceTree(owned)),
        precision(given_precision),
        w(Draw<T>(tree.num_weight_rows() * width, 32, rng)),
        b(Draw<T>(tree.num_weight_rows(), 64, rng)),
        x(Draw<T>(size * width, 64, rng)),
        broken(tree.num_classes),
        want(tree, width, size) {
    const int64_t most = classes > 0 ? classes : tree.num_classes;
    for (int64_t i = 0; i < size; ++i) {
      int64_t label = (*rng)() % most;
      if (i % 13 == 5) label = kIgnored;
      if (i % 17 == 11) label = i % 2 == 0 ? tree.num_classes : -7;
      labels.push_back(label);
      grads.push_back((1 + i % 3) / 4.0);
    }
    if (sizeof(T) >= 4 && precision == Precision::kTensorCores) {
      // Not exact in tf32.
      for (T& value : x) value = FromDouble<T>(ToDouble(value) / 3);
    }
  }

  // Smooths the labels, evenly or towards a prior.
  void Smooth(bool evenly, std::mt19937* rng) {
    smoothing = 0.25;
    if (!evenly) prior = DrawPrior(tree, rng);
  }

  std::vector<T> Biases() const { return biases ? b : std::vector<T>(); }

  bool Counts(int64_t i) const {
    return labels[i] >= 0 && labels[i] < tree.num_classes && !broken[labels[i]];
  }

  // Fills what follows `broken`, from the arrays before it.
  void MakeReference() {
    std::vector<int64_t> counted = labels;
    for (int64_t i = 0; i < size; ++i) counted[i] = Counts(i) ? labels[i] : -1;
    ReferenceOptions options;
    options.smoothing = smoothing;
    options.prior = DataOrNull(prior);
    options.soft_cap = soft_cap;
    options.z_loss = z_loss;
    want = ReferenceBatch(tree, width, ToDoubles(w), ToDoubles(Biases()),
                          ToDoubles(x), counted, ToDoubles(grads),
                          /*scales_dx=*/false, options);
    for (int64_t i = 0; i < size; ++i) {
      if (!Counts(i) && labels[i] != kIgnored) want.loss[i] = NAN;
    }
  }

  // A line of output: errors of the named parts against what rounding allows.
  void Report(const std::string& what, const std::string& error,
              const std::vector<std::pair<const char*, Errors>>& parts,
              bool same) const {
    bool good = error.empty() && same;
    const double tolerance =
        ToleranceOf<T>(precision, width, DescribeTree(tree).depth);
    for (const auto& [part, errors] : parts) {
      const bool weights =
          std::strcmp(part, "loss") != 0 && std::strcmp(part, "dx") != 0;
      const double allowed =
          weights ? (tolerance + RoundingOf<T>().store) * std::sqrt(size)
                  : tolerance;
      good = good && errors.worst <= allowed;
    }
    const char* labels = smoothing == 0  ? ""
                         : prior.empty() ? ", smoothed"
                                         : ", smoothed by a prior";
    Line(LineName<T>(name, size, width, precision, what + labels), good,
         error + TextOf(parts) + (same ? "" : "two runs differ"));
  }

  const TreeView tree;                      // of the case
  std::unique_ptr<DeviceTree> device_tree;  // `tree`, unless it was broken
  const Precision precision;
  std::vector<T> w, b, x;
  std::vector<int64_t> labels;
  std::vector<A> grads;
  double smoothing = 0;      // of labels
  std::vector<float> prior;  // for smoothing, [rows]; empty: even
  std::vector<bool> broken;  // classes without a right path on the device
  ReferenceSums want;
};

// The arrays of a case on the device, and the batch that they make.
template <typename T>
struct DeviceCase {
  explicit DeviceCase(const LossCase<T>& c)
      : w(c.w),
        b(c.b),
        x(c.x),
        labels(c.labels),
        grads(c.grads),
        prior(c.prior),
        batch(BatchOf(*c.device_tree, w, c.biases ? &b : nullptr, x, c.size,
                      c.width, c.precision)) {
    batch.labels = labels.data();
    batch.num_ignored = 1;
    batch.ignored[0] = LossCase<T>::kIgnored;
    batch.label_smoothing = c.smoothing;
    batch.logit_soft_cap = c.soft_cap;
    batch.z_loss = c.z_loss;
    batch.smoothing_prior = c.prior.empty() ? nullptr : prior.data();
  }

  const DeviceArray<T> w, b, x;
  const DeviceArray<int64_t> labels;
  const DeviceArray<Accumulator<T>> grads;
  const DeviceArray<float> prior;
  Batch<T> batch;
};

// The outputs of a loss, and of its gradient in `capacity` rows.
template <typename T>
struct DeviceOutputs {
  using A = Accumulator<T>;

  DeviceOutputs(const Batch<T>& batch, int64_t rows_capacity)
      : capacity(rows_capacity),
        loss(batch.size),
        dx(batch.size * batch.width),
        rows(capacity),
        dw(capacity * batch.width),
        db(capacity) {}

  std::string RunForward(const Batch<T>& batch, const Memory& memory,
                         void* stream) const {
    return Forward<T>(batch, memory, {loss.data(), dx.data(), nullptr}, stream);
  }
  std::string RunBackward(const Batch<T>& batch, const Memory& memory,
                          const A* grads, void* stream) const {
    return Backward<T>(batch, memory, grads,
                       {capacity, rows.data(), dw.data(), db.data()}, stream);
  }

  const int64_t capacity;
  DeviceArray<A> loss, dx;
  DeviceArray<int64_t> rows;
  DeviceArray<T> dw, db;
};

// What a batch needs in between Forward and Backward.
struct DeviceMemory {
  template <typename T>
  DeviceMemory(const Batch<T>& batch, int64_t logits)
      : DeviceMemory(SizesOf(batch, logits), logits) {}
  DeviceMemory(const MemorySizes& sizes, int64_t logits)
      : state(sizes.state),
        scratch(sizes.scratch()),
        memory{state.data(), scratch.data(), logits} {}

  DeviceBlock state, scratch;
  const Memory memory;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_LOSS_CASE_H_
