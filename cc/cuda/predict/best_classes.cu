// A block per example makes the running sums of its classes' shares in shared
// memory; each thread then finds the places of some of the draws.

#include <cmath>

#include "cc/core/base/philox.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/predict/check_sampling.h"
#include "cc/cuda/predict/log_sum.h"

namespace tf_hsm::gpu {
namespace {

constexpr int kThreads = 128;

// A sum that the best class has in any tree, as in
// cc/core/api/example_search.h.
constexpr double kLeastMass = 1e-10;

TF_HSM_KERNEL(kThreads)
SplitBestKernel(BestClasses best, int64_t* classes, int64_t* first,
                int64_t* num_pruned) {
  const int64_t i = GlobalIndex();
  if (i >= best.size) return;
  const float log_prob = best.log_probs[i * best.k];
  if (log_prob != log_prob) {
    for (int64_t j = 0; j < best.k; ++j) classes[i * best.k + j] = -1;
  }
  first[i] = classes[i * best.k];
  num_pruned[i] = 0;
}

TF_HSM_KERNEL(kThreads)
DrawFromBestKernel(BestClasses best, double top_p, bool of_all,
                   SampleArguments options, int64_t* classes,
                   int32_t* too_few) {
  double* sums = reinterpret_cast<double*>(SharedMemory());  // [k], of shares
  double* masses = sums + best.k;
  int* count = reinterpret_cast<int*>(masses + best.k);
  const int k = static_cast<int>(best.k);
  const float* log_probs = best.log_probs + BlockIndex() * k;
  const double top = static_cast<double>(log_probs[0]);
  for (int i = ThreadIndex(); i < k; i += kThreads) {
    const double log_prob = static_cast<double>(log_probs[i]);
    const double gap = log_prob - top;
    // NaN is last, and has no share unless it is the first too.
    const bool none = i > 0 && gap != gap;
    sums[i] = none ? 0 : exp(gap / options.temperature);
    masses[i] = !of_all ? sums[i] : log_prob != log_prob ? 0 : exp(log_prob);
  }
  SyncBlock();
  if (ThreadIndex() == 0) {
    int kept = k;
    bool is_reached = top_p >= 1;
    if (top_p < 1) {
      double total = 0, mass = 0;
      for (int i = 0; i < k; ++i) total += masses[i];
      const double wanted = of_all ? fmax(top_p, kLeastMass) : top_p * total;
      for (int i = 0; i < k && !is_reached; ++i) {
        mass += masses[i];
        is_reached = mass >= wanted;
        if (is_reached) kept = i + 1;
      }
    }
    double sum = 0;
    for (int i = 0; i < kept; ++i) sums[i] = sum += sums[i];
    *count = kept;
    // Fewer than k are all that there are.
    const bool all = best.classes[BlockIndex() * k + k - 1] < 0;
    too_few[BlockIndex()] = is_reached || all ? 0 : 1;
  }
  SyncBlock();
  const double total = sums[*count - 1];
  for (int64_t s = ThreadIndex(); s < options.num_samples; s += kThreads) {
    const int64_t draw = BlockIndex() * options.num_samples + s;
    if (!(total > 0 && total < INFINITY)) {
      classes[draw] = -1;
      continue;
    }
    const double u = Uniform(options.seed_0, options.seed_1)
                         .At(static_cast<uint64_t>(draw), 0);
    // Below the total, also where the product is rounded up to it.
    const double point = fmin(u * total, nextafter(total, 0.0));
    int low = 0, high = *count - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (sums[middle] > point) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    classes[draw] = best.classes[BlockIndex() * k + low];
  }
}

// A warp per example.
TF_HSM_KERNEL(kThreads)
ShareRootsKernel(RootShares in) {
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < in.size;
       i += NumBlocks() * warps) {
    const float* from = in.root_log_probs + i * in.num_roots;
    float most = -static_cast<float>(INFINITY);
    for (int64_t r = Lane(); r < in.num_roots; r += kWarp) {
      most = Max(most, from[r]);
    }
    most = WarpMax(most);
    double sum = 0;
    for (int64_t r = Lane(); r < in.num_roots; r += kWarp) {
      sum += exp(static_cast<double>(from[r] - most));
    }
    const double total = static_cast<double>(most) + log(WarpSum(sum));
    for (int64_t r = Lane(); r < in.num_roots; r += kWarp) {
      in.log_shares[i * in.num_roots + r] =
          static_cast<float>(static_cast<double>(from[r]) - total);
    }
    if (Lane() == 0) in.bounds[i] = -static_cast<float>(INFINITY);
  }
}

std::string Check(const BestClasses& best) {
  return CheckBetween("k", best.k, 1, kMaxTopK);
}

}  // namespace

std::string SplitBest(const BestClasses& best, int64_t* classes, int64_t* first,
                      int64_t* num_pruned, void* stream) {
  const std::string error = Check(best);
  if (!error.empty()) return error;
  Launch(SplitBestKernel, CeilDivide(best.size, kThreads), kThreads, 0, stream,
         best, classes, first, num_pruned);
  return LaunchError();
}

std::string DrawFromBest(const BestClasses& best, double top_p, bool of_all,
                         const SampleArguments& arguments, int64_t* classes,
                         int32_t* too_few, void* stream) {
  const std::string error = Check(best);
  if (!error.empty()) return error;
  const std::string wrong = CheckSampling(arguments);
  if (!wrong.empty()) return wrong;
  Launch(DrawFromBestKernel, best.size, kThreads,
         2 * best.k * sizeof(double) + sizeof(int), stream, best, top_p, of_all,
         arguments, classes, too_few);
  return LaunchError();
}

std::string ShareRoots(const RootShares& roots, void* stream) {
  const std::string error =
      CheckBetween("num_roots", roots.num_roots, 1, int64_t{1} << 31);
  if (!error.empty()) return error;
  Launcher(stream).PerWarp(ShareRootsKernel, roots.size, kThreads / kWarp, 0,
                           roots);
  return LaunchError();
}

}  // namespace tf_hsm::gpu
