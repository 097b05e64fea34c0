// Checks what a trained head does beyond inference_check.h: log-probabilities
// with their gradient, those of given classes, and draws among the best ones;
// and the state of a loss that is made again.

#ifndef TF_HSM_CC_CUDA_CHECK_PREDICTION_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_PREDICTION_CHECK_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/cuda/api/best_classes.h"
#include "cc/cuda/api/class_log_probs.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/api/log_probs_grad.h"
#include "cc/cuda/api/saved_state.h"
#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class PredictionCheck {
 public:
  using A = Accumulator<T>;

  PredictionCheck(const CheckCase& c, const LossCase<T>& loss,
                  std::mt19937* rng)
      : case_(loss),
        tree_(loss.tree),
        levels_(LevelStarts(c.tree)),
        rng_(rng),
        device_w_(loss.w),
        device_b_(loss.b),
        device_x_(loss.x),
        device_labels_(loss.labels),
        batch_(
            loss.MakeBatch(device_w_, device_b_, device_x_, device_labels_)) {
    whole_ = batch_;
    // Large batches would only take long.
    batch_.size = std::min<int64_t>(batch_.size, 33);
  }

  void Run() {
    CheckLogProbs(true);
    CheckLogProbs(false);
    CheckClasses();
    CheckState();
  }

 private:
  void Report(const std::string& what, bool good, const std::string& text) {
    Line(case_.name + " B=" + std::to_string(batch_.size) +
             " D=" + std::to_string(case_.width) + " " +
             NameOf<T>(case_.precision) + " " + what,
         good, text);
  }

  static std::string Text(const char* what, double worst) {
    char text[64];
    std::snprintf(text, sizeof(text), "%s %.1e  ", what, worst);
    return text;
  }

  // The values are those of LogProbs; the gradient is compared with one in
  // double that is made of them.
  void CheckLogProbs(bool of_nodes) {
    const int64_t size = batch_.size, rows = tree_.num_rows;
    const int64_t groups = tree_.num_groups;
    const int64_t columns = of_nodes ? rows : tree_.num_classes;
    const DeviceArray<A> nodes(size * rows), values(size * columns);
    const DeviceArray<A> of_groups(size * groups);
    const DeviceBlock node_scratch(LogProbsBytes(batch_, true));
    const DeviceBlock scratch(AllLogProbsBytes(batch_, of_nodes, 7));
    std::string error = LogProbs(batch_, levels_, true, nodes.data(),
                                 node_scratch.data(), nullptr);
    error += MakeAllLogProbs<T>(batch_, levels_, 7,
                                {of_nodes, values.data(), of_groups.data()},
                                scratch.data(), nullptr);
    nodes_ = nodes.Download();
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
        const A want = g == 0 ? A(0) : own[tree_.group_parents[g]];
        if (got_groups[i * groups + g] != want) ++wrong;
      }
    }
    std::vector<A> grads;
    for (int64_t i = 0; i < size * columns; ++i) {
      grads.push_back(static_cast<A>(static_cast<int>((*rng_)() % 65) - 32) /
                      32);
    }
    const DeviceArray<A> device_grads(grads);
    std::vector<A> dz, dx;
    bool same = true;
    for (int run = 0; run < 2; ++run) {
      const DeviceArray<A> device_dz(size * rows);
      const DeviceArray<A> device_dx(size * case_.width);
      const DeviceBlock grad_scratch(LogProbsGradBytes(batch_));
      error += LogProbsGrad<T>(batch_, levels_,
                               {of_nodes, values.data(), of_groups.data()},
                               device_grads.data(), device_dz.data(),
                               device_dx.data(), grad_scratch.data(), nullptr);
      same = same && (run == 0 || (Same(dz, device_dz.Download()) &&
                                   Same(dx, device_dx.Download())));
      dz = device_dz.Download();
      dx = device_dx.Download();
    }
    const double unit = RoundingOf<T>(case_.precision).sum;
    const double dz_error = GradError(of_nodes, grads, dz);
    const double dx_error = ProductError(dz, dx);
    Report(of_nodes ? "nodes and gradient" : "classes and gradient",
           error.empty() && wrong == 0 && same &&
               dz_error <= unit * 16 * (rows + 16) &&
               dx_error <= unit * 2 * (rows + 16),
           error + std::to_string(wrong) + " wrong  " + Text("dz", dz_error) +
               Text("dx", dx_error) + (same ? "" : "two runs differ"));
  }

  static bool Same(const std::vector<A>& a, const std::vector<A>& b) {
    return a.size() == b.size() &&
           std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0;
  }

  double GradError(bool of_nodes, const std::vector<A>& grads,
                   const std::vector<A>& dz) const {
    const int64_t rows = tree_.num_rows;
    const int64_t columns = of_nodes ? rows : tree_.num_classes;
    Errors errors;
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
        const double above = parent < 0 ? 0 : own[parent];
        for (int64_t r = first; r < last; ++r) {
          errors.Add(dz[i * rows + r],
                     sums[r] - sum * std::exp(own[r] - above));
        }
        if (parent >= 0) sums[parent] += sum;
      }
    }
    return errors.worst;
  }

  // Relative to the magnitudes that are added.
  double ProductError(const std::vector<A>& dz,
                      const std::vector<A>& dx) const {
    double worst = 0;
    for (int64_t i = 0; i < batch_.size; ++i) {
      for (int64_t d = 0; d < case_.width; ++d) {
        double sum = 0, size = 1;
        for (int64_t r = 0; r < tree_.num_rows; ++r) {
          const double term = static_cast<double>(dz[i * tree_.num_rows + r]) *
                              ToDouble(case_.w[r * case_.width + d]);
          sum += term;
          size += std::fabs(term);
        }
        const double error = std::fabs(dx[i * case_.width + d] - sum) / size;
        if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
      }
    }
    return worst;
  }

  // Given classes, wrong ones among them; then draws among the best.
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
    batch.wide_labels = false;
    const DeviceArray<A> found(size * kCount);
    const DeviceBlock scratch(ClassLogProbsBytes(batch, kCount, 5));
    const std::string error =
        ClassLogProbs(batch, kCount, 5, found.data(), scratch.data(), nullptr);
    const std::vector<A> got = found.Download();
    Errors errors;
    for (int64_t i = 0; i < size * kCount; ++i) {
      const int64_t id = classes[i];
      const bool right = id >= 0 && id < tree_.num_classes;
      errors.Add(
          got[i],
          right ? nodes_[i / kCount * tree_.num_rows + tree_.class_rows[id]]
                : NAN);
    }
    Report("given classes",
           error.empty() &&
               errors.worst <= 2 * ToleranceOf<T>(case_.precision, case_.width,
                                                  batch.shape.depth),
           error + Text("log_probs", errors.worst));
    for (double top_p : {1.0, 0.6, 1e-30}) CheckDraws(top_p);
  }

  void CheckDraws(double top_p) {
    const int64_t k = std::min<int64_t>(tree_.num_classes, 37);
    std::vector<float> log_probs;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < batch_.size; ++i) {
      std::vector<float> own;
      for (int64_t j = 0; j < k; ++j) {
        own.push_back(-static_cast<float>((*rng_)() % 64) / 8 - 2);
        ids.push_back((*rng_)() % tree_.num_classes);
      }
      std::sort(own.begin(), own.end(), std::greater<float>());
      if (i % 5 == 4) own.assign(k, NAN);
      if (i % 5 == 3) own.back() = k > 1 ? NAN : own.back();
      log_probs.insert(log_probs.end(), own.begin(), own.end());
    }
    SampleArguments arguments;
    arguments.num_samples = 5;
    arguments.seed_0 = 7;
    arguments.seed_1 = uint64_t{1} << 50;
    arguments.temperature = 0.7;
    const DeviceArray<float> device_log_probs(log_probs);
    const DeviceArray<int64_t> device_ids(ids);
    const DeviceArray<int64_t> draws(batch_.size * arguments.num_samples);
    const DeviceArray<int64_t> first(batch_.size), pruned(batch_.size);
    const DeviceArray<int32_t> too_few(batch_.size);
    const BestClasses best = {batch_.size, k, device_log_probs.data(),
                              device_ids.data()};
    std::string error = DrawFromBest(best, top_p, arguments, draws.data(),
                                     too_few.data(), nullptr);
    error += SplitBest(best, first.data(), pruned.data(), nullptr);
    const std::vector<int64_t> got = draws.Download();
    const std::vector<int32_t> flags = too_few.Download();
    const std::vector<int64_t> firsts = first.Download();
    const std::vector<int64_t> counts = pruned.Download();
    const Uniform uniform(arguments.seed_0, arguments.seed_1);
    int64_t wrong = 0;
    for (int64_t i = 0; i < batch_.size; ++i) {
      const float* own = log_probs.data() + i * k;
      wrong += firsts[i] != ids[i * k] || counts[i] != 0;
      std::vector<double> sums;
      double mass = 0, sum = 0;
      for (int64_t j = 0; j < k && mass < std::max(top_p, 1e-10); ++j) {
        const double share =
            std::exp((own[j] - own[0]) / arguments.temperature);
        mass += std::isnan(own[j]) ? 0 : std::exp(own[j]);
        sums.push_back(sum += j > 0 && std::isnan(share) ? 0 : share);
        if (top_p >= 1) mass = 0;
      }
      wrong += flags[i] != (top_p < 1 && mass < std::max(top_p, 1e-10));
      for (int64_t s = 0; s < arguments.num_samples; ++s) {
        const int64_t draw = i * arguments.num_samples + s;
        const double point = uniform.At(draw, 0) * sum;
        int64_t want = -1;
        if (sum > 0) {
          const auto at = std::upper_bound(sums.begin(), sums.end(), point);
          want = ids[i * k + (at - sums.begin())];
        }
        wrong += got[draw] != want;
      }
    }
    Report("draws, top_p " + std::to_string(top_p), error.empty() && wrong == 0,
           error + std::to_string(wrong) + " wrong");
  }

  // A backward from a state that is made again, of one in which the plan was
  // overwritten, has the bits of an honest one; with nothing left of it, the
  // rows are the same.
  void CheckState() {
    if (whole_.size == 0) return;
    const MemorySizes sizes = SizesOf(whole_, case_.logits);
    const DeviceBlock state(sizes.state), own(sizes.state);
    const DeviceBlock scratch(sizes.scratch);
    const DeviceArray<A> losses(whole_.size), grads(case_.grads);
    LossOutputs<T> outputs;
    outputs.loss = losses.data();
    std::string error = Forward(
        whole_, {state.data(), scratch.data(), case_.logits}, outputs, nullptr);
    const Results honest =
        BackwardOf({state.data(), scratch.data(), case_.logits}, grads, &error);
    std::vector<unsigned char> saved(sizes.state);
    DeviceBlock::Download(state.data(), sizes.state, saved.data());
    const int64_t plan_bytes = PlanBytes();
    int64_t wrong = 0;
    for (const bool all : {false, true}) {
      for (int64_t i = 0; i < (all ? sizes.state : plan_bytes); ++i) {
        // Without the exponents of infinity and NaN.
        saved[i] = static_cast<unsigned char>((*rng_)() & 0x3f);
      }
      DeviceBlock forged(sizes.state);
      forged.Upload(saved.data());
      const Memory memory = {own.data(), scratch.data(), case_.logits};
      error +=
          RestoreState(whole_, memory, forged.data(), losses.data(), nullptr);
      const Results got = BackwardOf(memory, grads, &error);
      wrong += got.rows != honest.rows;
      wrong += !all && std::memcmp(got.dw.data(), honest.dw.data(),
                                   got.dw.size() * sizeof(T)) != 0;
    }
    Report("forged state", error.empty() && wrong == 0,
           error + std::to_string(wrong) + " wrong");
  }

  struct Results {
    std::vector<int64_t> rows;
    std::vector<T> dw;
  };

  Results BackwardOf(const Memory& memory, const DeviceArray<A>& grads,
                     std::string* error) const {
    int64_t count = 0;
    DeviceBlock::Download(NumTouchedRows(whole_, memory), sizeof(count),
                          &count);
    const DeviceArray<int64_t> rows(count);
    const DeviceArray<T> dw(count * whole_.width), db(count);
    RowGradients<T> out;
    out.capacity = count;
    out.rows = rows.data();
    out.dw = dw.data();
    out.db = db.data();
    *error += Backward(whole_, memory, grads.data(), out, nullptr);
    return {rows.Download(), dw.Download()};
  }

  // Of a state, those before the inputs in sorted order: counts, the order of
  // the examples and their depths, at least.
  int64_t PlanBytes() const {
    return 3 * 256 + 2 * whole_.size * static_cast<int64_t>(sizeof(int32_t));
  }

  const LossCase<T>& case_;
  const TreeView tree_;
  const std::vector<int64_t> levels_;
  std::mt19937* rng_;
  const DeviceArray<T> device_w_, device_b_, device_x_;
  const DeviceArray<int64_t> device_labels_;
  Batch<T> batch_, whole_;
  std::vector<A> nodes_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_PREDICTION_CHECK_H_
