// Checks log-probabilities with their gradient, and those of given classes.

#ifndef TF_HSM_CC_CUDA_CHECK_LOG_PROBS_GRAD_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_LOG_PROBS_GRAD_CHECK_H_

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/inference_check.h"

namespace tf_hsm::gpu {

template <typename T>
class LogProbsGradCheck {
 public:
  using A = Accumulator<T>;

  LogProbsGradCheck(const InferenceCase<T>& c, std::mt19937* rng)
      : case_(c),
        tree_(c.tree),
        levels_(c.levels),
        batch_(c.batch),
        rng_(rng) {}

  void Run() {
    CheckLogProbs(true);
    CheckLogProbs(false);
    CheckClasses();
  }

 private:
  // The values do not depend on the chunks; the gradient is compared with one
  // in double that is made of them.
  void CheckLogProbs(bool of_nodes) {
    const int64_t size = batch_.size, rows = tree_.num_rows;
    const int64_t groups = tree_.num_groups;
    const int64_t columns = of_nodes ? rows : tree_.num_classes;
    const DeviceArray<A> values(size * columns), of_groups(size * groups);
    const DeviceBlock scratch(LogProbsBytes(batch_, of_nodes, 7));
    std::string error;
    nodes_ = case_.LogProbsOf(batch_, true, &error);
    error += LogProbs<T>(batch_, levels_, 7,
                         {of_nodes, values.data(), of_groups.data()},
                         scratch.data(), CheckStream());
    const std::vector<A> got = values.Download();
    const std::vector<A> got_groups = of_groups.Download();
    int64_t wrong = 0;
    for (int64_t i = 0; i < size; ++i) {
      const A* own = nodes_.data() + i * rows;
      for (int64_t c = 0; c < columns; ++c) {
        const A want = own[of_nodes ? c : tree_.class_rows[c]];
        if (got[i * columns + c] != want) ++wrong;
      }
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t parent = tree_.group_parents[g];
        const A want = parent < 0 ? case_.StartAt(i, g) : own[parent];
        if (got_groups[i * groups + g] != want) ++wrong;
      }
    }
    std::vector<A> grads;
    for (int64_t i = 0; i < size * columns; ++i) {
      grads.push_back(static_cast<A>(static_cast<int>((*rng_)() % 65) - 32) /
                      32);
    }
    const DeviceArray<A> device_grads(grads);
    std::vector<A> dz, dx, roots;
    bool same = true;
    for (int run = 0; run < 2; ++run) {
      const DeviceArray<A> device_dz(size * tree_.num_weight_rows());
      const DeviceArray<A> device_dx(size * case_.width);
      const DeviceArray<A> device_roots(size * tree_.num_roots);
      const DeviceBlock grad_scratch(LogProbsGradBytes(batch_));
      error += LogProbsGrad<T>(
          batch_, levels_, {of_nodes, values.data(), of_groups.data()},
          device_grads.data(),
          {device_dz.data(), device_dx.data(), device_roots.data()},
          grad_scratch.data(), CheckStream());
      same = same && (run == 0 || (SameBits(dz, device_dz.Download()) &&
                                   SameBits(dx, device_dx.Download()) &&
                                   SameBits(roots, device_roots.Download())));
      dz = device_dz.Download();
      dx = device_dx.Download();
      roots = device_roots.Download();
    }
    const double unit = RoundingOf<T>().sum;
    Errors dz_errors, root_errors;
    CompareLogits(of_nodes, grads, dz, roots, &dz_errors, &root_errors);
    const Errors dx_errors = {ProductError<T>(dz, case_.w, dx, size)};
    Line(case_.Name(of_nodes ? "nodes and gradient" : "classes and gradient"),
         error.empty() && wrong == 0 && same &&
             dz_errors.worst <= unit * 16 * (rows + 16) &&
             root_errors.worst <= unit * 16 * (rows + 16) &&
             dx_errors.worst <= unit * 2 * (rows + 16),
         error + std::to_string(wrong) + " wrong  " +
             TextOf({{"dz", dz_errors},
                     {"dx", dx_errors},
                     {"roots", root_errors}}) +
             (same ? "" : "two runs differ"));
  }

  void CompareLogits(bool of_nodes, const std::vector<A>& grads,
                     const std::vector<A>& dz, const std::vector<A>& roots,
                     Errors* dz_errors, Errors* root_errors) const {
    const int64_t rows = tree_.num_rows;
    const int64_t columns = of_nodes ? rows : tree_.num_classes;
    const int64_t stride = tree_.num_weight_rows();
    for (int64_t i = 0; i < batch_.size; ++i) {
      const A* own = nodes_.data() + i * rows;
      std::vector<double> sums(rows);
      for (int64_t c = 0; c < columns; ++c) {
        sums[of_nodes ? c : tree_.class_rows[c]] = grads[i * columns + c];
      }
      for (int64_t g = tree_.num_groups; g-- > 0;) {
        const int64_t parent = tree_.group_parents[g];
        const int64_t first = tree_.group_offsets[g];
        const int64_t last = tree_.group_offsets[g + 1];
        double sum = 0;
        for (int64_t r = first; r < last; ++r) sum += sums[r];
        if (parent < 0) {
          root_errors->Add(roots[i * tree_.num_roots + case_.roots[g]], sum);
        }
        double above = parent < 0 ? case_.StartAt(i, g) : own[parent];
        if (std::isinf(above)) above = 0;
        for (int64_t r = first; r < last; ++r) {
          if (!tree_.has_weights(r)) continue;
          dz_errors->Add(dz[i * stride + tree_.weight_row(r)],
                         sums[r] - sum * std::exp(own[r] - above));
        }
        if (parent >= 0) sums[parent] += sum;
      }
    }
  }

  // Given classes, wrong ones among them.
  void CheckClasses() {
    constexpr int64_t kCount = 3;
    const int64_t size = batch_.size;
    std::vector<int32_t> classes;
    for (int64_t i = 0; i < size * kCount; ++i) {
      int64_t id = (*rng_)() % tree_.num_classes;
      if (i % 7 == 3) id = i % 2 == 0 ? tree_.num_classes : -1;
      classes.push_back(static_cast<int32_t>(id));
    }
    const DeviceArray<int32_t> labels(classes);
    Batch<T> batch = batch_;
    batch.labels = labels.data();
    batch.labels_are_int64 = false;
    const DeviceArray<A> found(size * kCount);
    const DeviceBlock scratch(ClassLogProbsBytes(batch, kCount, 5));
    const std::string error = ClassLogProbs(
        batch, levels_, kCount, 5, found.data(), scratch.data(), CheckStream());
    const std::vector<A> got = found.Download();
    Errors errors;
    for (int64_t i = 0; i < size * kCount; ++i) {
      const int64_t id = classes[i];
      const bool right = id >= 0 && id < tree_.num_classes;
      const double of_none = id == -1 && !case_.starts.empty()
                                 ? -INFINITY
                                 : static_cast<double>(NAN);
      errors.Add(
          got[i],
          right ? nodes_[i / kCount * tree_.num_rows + tree_.class_rows[id]]
                : of_none);
    }
    Line(case_.Name("given classes"),
         error.empty() &&
             errors.worst <= 2 * ToleranceOf<T>(case_.precision, case_.width,
                                                batch.shape.depth),
         error + TextOf({{"log_probs", errors}}));
  }

  const InferenceCase<T>& case_;
  const TreeView& tree_;
  const Levels& levels_;
  const Batch<T>& batch_;
  std::mt19937* rng_;
  std::vector<A> nodes_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_LOG_PROBS_GRAD_CHECK_H_
