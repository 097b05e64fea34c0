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

// Compares the gradients by logits and by roots with ones in double, which it
// makes of the log-probabilities of all nodes.
template <typename T, typename A>
void CompareLogits(const InferenceCase<T>& c, bool of_nodes,
                   const std::vector<A>& nodes, const std::vector<A>& grads,
                   const std::vector<A>& dz, const std::vector<A>& roots,
                   Errors* dz_errors, Errors* root_errors) {
  const int64_t rows = c.tree.num_rows;
  const int64_t columns = of_nodes ? rows : c.tree.num_classes;
  const int64_t stride = c.tree.num_weight_rows();
  const std::vector<double> slopes = c.Slopes();
  for (int64_t i = 0; i < c.batch.size; ++i) {
    const A* own = nodes.data() + i * rows;
    std::vector<double> sums(rows);
    for (int64_t k = 0; k < columns; ++k) {
      sums[of_nodes ? k : c.tree.class_rows[k]] = grads[i * columns + k];
    }
    for (int64_t g = c.tree.num_groups; g-- > 0;) {
      const int64_t parent = c.tree.group_parents[g];
      const int64_t first = c.tree.group_offsets[g];
      const int64_t last = c.tree.group_offsets[g + 1];
      double sum = 0;
      for (int64_t r = first; r < last; ++r) sum += sums[r];
      if (parent < 0) {
        root_errors->Add(roots[i * c.tree.num_roots + c.roots[g]], sum);
      }
      double above = parent < 0 ? c.StartAt(i, g) : own[parent];
      if (std::isinf(above)) above = 0;
      for (int64_t r = first; r < last; ++r) {
        if (!c.tree.has_weights(r)) continue;
        dz_errors->Add(
            dz[i * stride + c.tree.weight_row(r)],
            slopes[i * rows + r] * (sums[r] - sum * std::exp(own[r] - above)));
      }
      if (parent >= 0) sums[parent] += sum;
    }
  }
}

// The values do not depend on the chunks; the gradient is compared with one
// in double that is made of them.
template <typename T>
void CheckLogProbsGrad(const InferenceCase<T>& c, bool of_nodes,
                       std::mt19937* rng) {
  using A = Accumulator<T>;
  const int64_t size = c.batch.size, rows = c.tree.num_rows;
  const int64_t groups = c.tree.num_groups;
  const int64_t columns = of_nodes ? rows : c.tree.num_classes;
  const DeviceArray<A> values(size * columns), of_groups(size * groups);
  const DeviceBlock scratch(LogProbsBytes(c.batch, of_nodes, 7));
  std::string error;
  const std::vector<A> nodes = c.LogProbsOf(c.batch, true, &error);
  error += LogProbs<T>(c.batch, c.levels, 7,
                       {of_nodes, values.data(), of_groups.data()},
                       scratch.data(), CheckStream());
  const std::vector<A> got = values.Download();
  const std::vector<A> got_groups = of_groups.Download();
  int64_t wrong = 0;
  for (int64_t i = 0; i < size; ++i) {
    const A* own = nodes.data() + i * rows;
    for (int64_t k = 0; k < columns; ++k) {
      const A want = own[of_nodes ? k : c.tree.class_rows[k]];
      if (got[i * columns + k] != want) ++wrong;
    }
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t parent = c.tree.group_parents[g];
      const A want = parent < 0 ? c.StartAt(i, g) : own[parent];
      if (got_groups[i * groups + g] != want) ++wrong;
    }
  }
  std::vector<A> grads;
  for (int64_t i = 0; i < size * columns; ++i) {
    grads.push_back(static_cast<A>(static_cast<int>((*rng)() % 65) - 32) / 32);
  }
  const DeviceArray<A> device_grads(grads);
  std::vector<A> dz, dx, roots;
  bool same = true;
  for (int run = 0; run < 2; ++run) {
    const DeviceArray<A> device_dz(size * c.tree.num_weight_rows());
    const DeviceArray<A> device_dx(size * c.width);
    const DeviceArray<A> device_roots(size * c.tree.num_roots);
    const DeviceBlock grad_scratch(LogProbsGradBytes(c.batch));
    error += LogProbsGrad<T>(
        c.batch, c.levels, {of_nodes, values.data(), of_groups.data()},
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
  CompareLogits(c, of_nodes, nodes, grads, dz, roots, &dz_errors, &root_errors);
  // The products round the logits, and so the slopes.
  const double slope =
      c.soft_cap > 0 ? 2 * ToleranceOf<T>(c.precision, c.width, 1) / c.soft_cap
                     : 0;
  const Errors dx_errors = {ProductError<T>(dz, c.w, dx, size)};
  Line(c.Name(of_nodes ? "nodes and gradient" : "classes and gradient"),
       error.empty() && wrong == 0 && same &&
           dz_errors.worst <= unit * 16 * (rows + 16) + slope &&
           root_errors.worst <= unit * 16 * (rows + 16) &&
           dx_errors.worst <= unit * 2 * (rows + 16),
       error + std::to_string(wrong) + " wrong  " +
           TextOf(
               {{"dz", dz_errors}, {"dx", dx_errors}, {"roots", root_errors}}) +
           (same ? "" : "two runs differ"));
}

// Given classes, wrong ones among them.
template <typename T>
void CheckClassLogProbs(const InferenceCase<T>& c, std::mt19937* rng) {
  using A = Accumulator<T>;
  constexpr int64_t kCount = 3;
  const int64_t size = c.batch.size;
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < size * kCount; ++i) {
    int64_t id = (*rng)() % c.tree.num_classes;
    if (i % 7 == 3) id = i % 2 == 0 ? c.tree.num_classes : -1;
    classes.push_back(static_cast<int32_t>(id));
  }
  const DeviceArray<int32_t> labels(classes);
  Batch<T> batch = c.batch;
  batch.labels = labels.data();
  batch.labels_are_int64 = false;
  const DeviceArray<A> found(size * kCount);
  const DeviceBlock scratch(ClassLogProbsBytes(batch, kCount, 5));
  std::string error;
  const std::vector<A> nodes = c.LogProbsOf(c.batch, true, &error);
  error += ClassLogProbs(batch, c.levels, kCount, 5, found.data(),
                         scratch.data(), CheckStream());
  const std::vector<A> got = found.Download();
  Errors errors;
  for (int64_t i = 0; i < size * kCount; ++i) {
    const int64_t id = classes[i];
    const bool right = id >= 0 && id < c.tree.num_classes;
    const double of_none =
        id == -1 && !c.starts.empty() ? -INFINITY : static_cast<double>(NAN);
    errors.Add(got[i],
               right
                   ? nodes[i / kCount * c.tree.num_rows + c.tree.class_rows[id]]
                   : of_none);
  }
  Line(c.Name("given classes"),
       error.empty() && errors.worst <= 2 * ToleranceOf<T>(c.precision, c.width,
                                                           batch.shape.depth),
       error + TextOf({{"log_probs", errors}}));
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_LOG_PROBS_GRAD_CHECK_H_
