// Checks draws among the best classes of each example.

#ifndef TF_HSM_CC_CUDA_CHECK_BEST_CLASSES_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_BEST_CLASSES_CHECK_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/philox.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/check_support.h"

namespace tf_hsm::gpu {

// Probabilities of roots far above and below 1; none, and NaN.
inline void CheckShares(int64_t size, int64_t num_roots, std::mt19937* rng) {
  std::vector<float> starts;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t r = 0; r < num_roots; ++r) {
      const float start =
          static_cast<float>((*rng)() % 64) / 8 + (i % 3 - 1) * 200;
      starts.push_back(i % 5 == 4 || (i + r) % 4 == 1
                           ? -static_cast<float>(INFINITY)
                           : start);
    }
    if (i % 7 == 6) starts.back() = NAN;
  }
  const DeviceArray<float> device_starts(starts), shares(starts.size());
  const DeviceArray<float> bounds(size);
  const std::string error = ShareRoots(
      {size, num_roots, device_starts.data(), shares.data(), bounds.data()},
      CheckStream());
  const std::vector<float> got = shares.Download();
  Errors errors;
  for (int64_t i = 0; i < size; ++i) {
    const float* own = starts.data() + i * num_roots;
    const double most = *std::max_element(own, own + num_roots);
    double sum = 0;
    for (int64_t r = 0; r < num_roots; ++r) sum += std::exp(own[r] - most);
    for (int64_t r = 0; r < num_roots; ++r) {
      errors.Add(got[i * num_roots + r], own[r] - most - std::log(sum));
    }
  }
  bool lowest = true;
  for (const float bound : bounds.Download()) {
    lowest = lowest && bound == -INFINITY;
  }
  Line("shares of " + std::to_string(num_roots) +
           " roots, B=" + std::to_string(size),
       error.empty() && lowest && errors.worst < 1e-6,
       error + TextOf({{"shares", errors}}));
}

inline void CheckDraws(int64_t num_classes, int64_t size, double top_p,
                       bool of_all, std::mt19937* rng) {
  const int64_t k = std::min<int64_t>(num_classes, 37);
  std::vector<float> log_probs;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < size; ++i) {
    std::vector<float> own;
    for (int64_t j = 0; j < k; ++j) {
      own.push_back(-static_cast<float>((*rng)() % 64) / 8 - 2);
      ids.push_back((*rng)() % num_classes);
    }
    std::sort(own.begin(), own.end(), std::greater<float>());
    if (i % 5 == 4) own.assign(k, NAN);
    if (i % 5 == 3) own.back() = k > 1 ? NAN : own.back();
    if (i % 5 == 2) {
      own.back() = -static_cast<float>(INFINITY);
      ids.back() = -1;
    }
    log_probs.insert(log_probs.end(), own.begin(), own.end());
  }
  SampleArguments arguments;
  arguments.num_samples = 5;
  arguments.seed_0 = 7;
  arguments.seed_1 = uint64_t{1} << 50;
  arguments.temperature = 0.7;
  const DeviceArray<float> device_log_probs(log_probs);
  const DeviceArray<int64_t> device_ids(ids);
  const DeviceArray<int64_t> draws(size * arguments.num_samples);
  const DeviceArray<int64_t> first(size), pruned(size);
  const DeviceArray<int32_t> too_few(size);
  const BestClasses best = {size, k, device_log_probs.data(),
                            device_ids.data()};
  std::string error = DrawFromBest(best, top_p, of_all, arguments, draws.data(),
                                   too_few.data(), CheckStream());
  error += SplitBest(best, device_ids.data(), first.data(), pruned.data(),
                     CheckStream());
  const std::vector<int64_t> kept = device_ids.Download();
  const std::vector<int64_t> got = draws.Download();
  const std::vector<int32_t> flags = too_few.Download();
  const std::vector<int64_t> firsts = first.Download();
  const std::vector<int64_t> counts = pruned.Download();
  const Uniform uniform(arguments.seed_0, arguments.seed_1);
  int64_t wrong = 0;
  for (int64_t i = 0; i < size; ++i) {
    const float* own = log_probs.data() + i * k;
    for (int64_t j = 0; j < k; ++j) {
      const int64_t want = std::isnan(own[0]) ? -1 : ids[i * k + j];
      wrong += kept[i * k + j] != want || (j == 0 && firsts[i] != want);
    }
    wrong += counts[i] != 0;
    std::vector<double> shares;
    double total = 0;
    for (int64_t j = 0; j < k; ++j) {
      const double share = std::exp((own[j] - own[0]) / arguments.temperature);
      total += shares.emplace_back(j > 0 && std::isnan(share) ? 0 : share);
    }
    const double wanted = of_all ? std::max(top_p, 1e-10) : top_p * total;
    std::vector<double> sums;
    double mass = 0, sum = 0;
    for (int64_t j = 0; j < k && (top_p >= 1 || !(mass >= wanted)); ++j) {
      const double p = std::isnan(own[j]) ? 0 : std::exp(own[j]);
      mass += of_all ? p : shares[j];
      sums.push_back(sum += shares[j]);
    }
    wrong +=
        flags[i] != (top_p < 1 && !(mass >= wanted) && ids[i * k + k - 1] >= 0);
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
  WrongLine("draws, K=" + std::to_string(num_classes) +
                " B=" + std::to_string(size) + ", top_p " +
                std::to_string(top_p) + (of_all ? " of all" : ""),
            error, wrong);
}

inline void CheckBestClasses(std::mt19937* rng) {
  for (int64_t size : {0, 3, 33}) {
    for (int64_t classes : {1, 9, 203}) {
      for (double top_p : {1.0, 0.6, 1e-30}) {
        for (bool of_all : {false, true}) {
          CheckDraws(classes, size, top_p, of_all, rng);
        }
      }
    }
    for (int64_t roots : {1, 37}) CheckShares(size, roots, rng);
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_BEST_CLASSES_CHECK_H_
