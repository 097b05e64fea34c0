#include "cc/core/clustering/exchange.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "cc/core/clustering/near_pairs.h"

namespace tf_hsm {
namespace {

constexpr int64_t kItems = 256;        // of work, at most, for all threads
constexpr int64_t kItemPoints = 2048;  // in one, at least

// Shares work that needs a TwoMeans among threads.
class Workers {
 public:
  Workers(const Points& points, const Parallel& parallel)
      : points_(points), parallel_(parallel) {}

  // Calls work(two_means, i) for all i in [0, count), which concern
  // `num_points` points.
  template <typename Work>
  void ForAll(int64_t count, int64_t num_points, const Work& work) {
    if (count == 0) return;
    const int64_t most = std::min(kItems, num_points / kItemPoints + 1);
    const int64_t step = (count + most - 1) / most;
    parallel_((count + step - 1) / step, [&](int64_t item) {
      std::unique_ptr<TwoMeans> two_means = Take();
      const int64_t end = std::min(count, (item + 1) * step);
      for (int64_t i = item * step; i < end; ++i) work(two_means.get(), i);
      const std::lock_guard<std::mutex> lock(mutex_);
      idle_.push_back(std::move(two_means));
    });
  }

 private:
  std::unique_ptr<TwoMeans> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return std::make_unique<TwoMeans>(points_);
    std::unique_ptr<TwoMeans> last = std::move(idle_.back());
    idle_.pop_back();
    return last;
  }

  const Points& points_;
  const Parallel& parallel_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<TwoMeans>> idle_;  // with their scratch
};

}  // namespace

void Halve(const Points& points, const int64_t* runs, int64_t count,
           const Parallel& parallel, int64_t* order) {
  int64_t num_points = 0;
  for (int64_t p = 0; p < count; ++p)
    num_points += runs[3 * p + 2] - runs[3 * p];
  Workers(points, parallel)
      .ForAll(count, num_points, [&](TwoMeans* by, int64_t p) {
        const int64_t left = runs[3 * p], right = runs[3 * p + 1];
        by->Split(order + left, right - left, order + right,
                  runs[3 * p + 2] - right, 0, {nullptr, nullptr});
      });
}

Exchanged Exchange(const Points& points, const Siblings& siblings,
                   int64_t rounds, const Parallel& parallel, int64_t* order) {
  const int64_t count = siblings.count, *starts = siblings.starts,
                *sizes = siblings.sizes;
  int64_t num_points = 0;
  std::vector<int64_t> changed(count);
  for (int64_t a = 0; a < count; ++a) {
    num_points += sizes[a];
    changed[a] = a;
  }
  Workers workers(points, parallel);
  const int64_t stride = TwoMeans(points).stride();
  std::vector<float> means(count * stride);
  workers.ForAll(count, num_points, [&](TwoMeans* by, int64_t a) {
    by->Mean(order + starts[a], sizes[a], &means[a * stride]);
  });
  NearPairs near(PointKernelsFor(points.isa), means.data(), count, stride,
                 siblings.splits);
  Exchanged all;
  for (int64_t round = 0; round < rounds; ++round) {
    near.Update(changed, parallel);
    const std::vector<NearPairs::Pair> pairs = near.Match();
    const auto num_pairs = static_cast<int64_t>(pairs.size());
    if (num_pairs == 0) break;
    std::vector<int64_t> moved(num_pairs);
    workers.ForAll(num_pairs, num_points, [&](TwoMeans* by, int64_t i) {
      const auto& [a, b] = pairs[i];
      // Any number, if somebody made up the splits.
      const float times =
          std::min(0x1p31f, std::abs(siblings.splits[a * count + b]));
      moved[i] = by->Split(order + starts[a], sizes[a], order + starts[b],
                           sizes[b], static_cast<uint32_t>(times),
                           {&means[a * stride], &means[b * stride]});
    });
    changed.clear();
    for (int64_t i = 0; i < num_pairs; ++i) {
      if (moved[i] == 0) continue;
      all.points += 2 * moved[i];
      changed.push_back(pairs[i].first);
      changed.push_back(pairs[i].second);
    }
    near.AddSplits(pairs, changed);
    all.pairs += num_pairs;
  }
  return all;
}

}  // namespace tf_hsm
