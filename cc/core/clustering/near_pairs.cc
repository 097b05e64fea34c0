#include "cc/core/clustering/near_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cc/core/base/types.h"

namespace tf_hsm {
namespace {

constexpr int64_t kItemRows = 16;  // of distances, in an item of work
constexpr int kMaxMatchings = 32;  // in a round, among clusters still alone
constexpr float kFar = std::numeric_limits<float>::infinity();

}  // namespace

NearPairs::NearPairs(const PointKernels& kernels, const float* means,
                     int64_t count, int64_t stride, float* splits)
    : kernels_(kernels),
      means_(means),
      count_(count),
      stride_(stride),
      padded_((count + kPadding - 1) / kPadding * kPadding),
      splits_(splits),
      squares_(count),
      distances_(count * padded_, kFar) {}

void NearPairs::Update(const std::vector<int64_t>& changed,
                       const Parallel& parallel) {
  for (int64_t a : changed) {
    const float* mean = means_ + a * stride_;
    kernels_.project(mean, 1, stride_, mean, &squares_[a]);
  }
  const auto num_changed = static_cast<int64_t>(changed.size());
  parallel((num_changed + kItemRows - 1) / kItemRows, [&](int64_t item) {
    const int64_t end = std::min(num_changed, (item + 1) * kItemRows);
    for (int64_t i = item * kItemRows; i < end; ++i) {
      const int64_t a = changed[i];
      float* row = &distances_[a * padded_];
      kernels_.project(means_, count_, stride_, means_ + a * stride_, row);
      for (int64_t b = 0; b < count_; ++b) {
        const float square = squares_[a] + squares_[b] - 2 * row[b];
        const float times = splits_[a * count_ + b];
        row[b] = times < 0 || a == b
                     ? kFar
                     : std::max(square, 0.0f) * std::sqrt(1 + times);
      }
    }
  });
  for (int64_t a : changed) {
    const float* row = &distances_[a * padded_];
    for (int64_t b = 0; b < count_; ++b) distances_[b * padded_ + a] = row[b];
  }
}

std::vector<NearPairs::Pair> NearPairs::Match() const {
  std::vector<int64_t> rest(count_), nearest(count_, -1);
  for (int64_t a = 0; a < count_; ++a) rest[a] = a;
  std::vector<float> taken(padded_);  // infinite for a cluster that has a pair
  std::vector<Pair> pairs;
  for (int matching = 0; matching < kMaxMatchings; ++matching) {
    for (int64_t a : rest) {
      if (nearest[a] >= 0 && taken[nearest[a]] == 0) continue;
      nearest[a] =
          kernels_.nearest(&distances_[a * padded_], taken.data(), padded_);
    }
    const size_t before = pairs.size();
    for (int64_t a : rest) {
      const int64_t b = nearest[a];
      if (a < b && b < count_ && nearest[b] == a &&
          distances_[a * padded_ + b] < kFar) {
        pairs.emplace_back(a, b);
      }
    }
    if (pairs.size() == before) break;
    for (size_t i = before; i < pairs.size(); ++i) {
      taken[pairs[i].first] = taken[pairs[i].second] = kFar;
    }
    rest.erase(std::remove_if(rest.begin(), rest.end(),
                              [&](int64_t a) { return taken[a] != 0; }),
               rest.end());
  }
  return pairs;
}

void NearPairs::AddSplits(const std::vector<Pair>& pairs,
                          const std::vector<int64_t>& changed) {
  for (int64_t a : changed) {
    for (int64_t b = 0; b < count_; ++b) {
      const float times = splits_[a * count_ + b];
      if (times >= 0) continue;
      splits_[a * count_ + b] = splits_[b * count_ + a] = -times;
    }
  }
  for (const auto& [a, b] : pairs) {
    const float times = std::abs(splits_[a * count_ + b]) + 1;
    splits_[a * count_ + b] = splits_[b * count_ + a] = -times;
    distances_[a * padded_ + b] = distances_[b * padded_ + a] = kFar;
  }
}

}  // namespace tf_hsm
