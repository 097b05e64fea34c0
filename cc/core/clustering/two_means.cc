#include "cc/core/clustering/two_means.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cc/core/base/philox.h"
#include "cc/core/base/prefetch.h"
#include "cc/core/base/types.h"

namespace tf_hsm {
namespace {

constexpr int64_t kSample = 1 << 22;    // numbers that a split is learned from
constexpr int64_t kLeastSample = 1024;  // and points, at least
constexpr int kPowerSteps = 4;          // to learn a principal direction
constexpr int64_t kStillMoving = 1000;  // one of so many points
constexpr int64_t kChunk = 256;         // points that are summed, or projected

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += double{a[k]} * b[k];
  return sum;
}

double SquaredDistance(const float* a, const float* b, int64_t size) {
  double sum = 0;
  for (int64_t k = 0; k < size; ++k) {
    const double difference = double{a[k]} - b[k];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

TwoMeans::TwoMeans(const Points& points)
    : points_(points),
      kernels_(PointKernelsFor(points.isa)),
      stride_((points.width + kPadding - 1) / kPadding * kPadding) {}

int64_t TwoMeans::Split(int64_t* left, int64_t num_left, int64_t* right,
                        int64_t num_right, uint32_t draw,
                        float* const (&means)[2]) {
  members_.assign(left, left + num_left);
  members_.insert(members_.end(), right, right + num_right);
  const int64_t count = num_left + num_right;
  // A large set is learned from one point of each few.
  const int64_t most = std::max(kSample / stride_, kLeastSample);
  const int64_t step = (count + most - 1) / most;
  int64_t left_of_sample = 0;
  places_.clear();
  parts_.is_left.clear();
  for (int64_t i = 0; i < count; i += step) {
    const auto number = static_cast<uint32_t>(places_.size());
    const int64_t few = std::min(step, count - i);
    const int64_t place =
        few == 1 ? i : i + Random(draw, 1, number).words[0] % few;
    places_.push_back(members_[place]);
    parts_.is_left.push_back(place < num_left);
    left_of_sample += place < num_left;
  }
  count_ = static_cast<int64_t>(places_.size());
  Gather(places_.data(), count_);
  mean_.assign(stride_, 0);
  SumRows(count_, mean_.data());
  for (float& x : mean_) x /= static_cast<float>(count_);
  kernels_.subtract(rows_.get(), count_, stride_, mean_.data());
  const bool has_means = means[0] != nullptr;
  const int64_t one = 1;
  Learn(std::min(std::max(left_of_sample, one), std::max(count_ - 1, one)),
        draw, has_means);
  if (step > 1) {
    scores_.resize(count);
    for (int64_t begin = 0; begin < count; begin += kChunk) {
      const int64_t here = std::min(kChunk, count - begin);
      Gather(&members_[begin], here);
      kernels_.subtract(rows_.get(), here, stride_, mean_.data());
      kernels_.project(rows_.get(), here, stride_, parts_.direction.data(),
                       &scores_[begin]);
    }
    count_ = count;
    Select(num_left, &parts_.is_left);
  }
  int64_t* ends[] = {right, left};
  for (int64_t i = 0; i < count; ++i) {
    *ends[parts_.is_left[i]]++ = members_[i];
  }
  if (has_means && step > 1) {
    // The parts are good for the sample. Are they better for all?
    const double before = SquaredDistance(means[0], means[1], stride_);
    new_means_.resize(2 * stride_);
    float* const new_means[2] = {&new_means_[0], &new_means_[stride_]};
    Mean(left, num_left, new_means[0]);
    Mean(right, num_right, new_means[1]);
    if (SquaredDistance(new_means[0], new_means[1], stride_) <= before) {
      std::copy_n(members_.begin(), num_left, left);
      std::copy_n(members_.begin() + num_left, num_right, right);
      return 0;
    }
    for (int part = 0; part < 2; ++part) {
      std::copy_n(new_means[part], stride_, means[part]);
    }
  } else if (has_means) {
    for (int64_t k = 0; k < stride_; ++k) {
      const float sum = parts_.direction[k];
      means[0][k] = mean_[k] + sum / static_cast<float>(num_left);
      means[1][k] = mean_[k] - sum / static_cast<float>(num_right);
    }
  }
  return std::count(parts_.is_left.begin(), parts_.is_left.begin() + num_left,
                    0);
}

void TwoMeans::Mean(const int64_t* members, int64_t count, float* mean) {
  std::fill_n(mean, stride_, 0.0f);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t here = std::min(kChunk, count - begin);
    Gather(members + begin, here);
    SumRows(here, mean);
  }
  for (int64_t k = 0; k < stride_; ++k) mean[k] /= static_cast<float>(count);
}

// Random bits: for each draw, each use of it and each number others.
PhiloxBlock TwoMeans::Random(uint32_t draw, uint32_t use,
                             uint32_t number) const {
  return Philox(points_.seed, {{number, draw, use, 0}});
}

// Copies points to the first rows.
void TwoMeans::Gather(const int64_t* members, int64_t count) {
  constexpr int64_t kAhead = 8;
  if (count > capacity_) {
    capacity_ = 0;
    rows_.reset();
    rows_.reset(new float[count * stride_]);
    capacity_ = count;
  }
  const int64_t width = points_.width;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      Prefetch(points_.rows + members[i + kAhead] * width, width);
    }
    float* row = &rows_[i * stride_];
    std::memcpy(row, points_.rows + members[i] * width, width * sizeof(float));
    std::fill(row + width, row + stride_, 0.0f);
  }
}

// Adds the first rows to `sum`. The sum of many is one of sums of a few, which
// float32 can tell from others.
void TwoMeans::SumRows(int64_t count, float* sum) {
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    block_.assign(stride_, 0);
    kernels_.add_rows(&rows_[begin * stride_], std::min(kChunk, count - begin),
                      stride_, nullptr, 1, block_.data());
    for (int64_t k = 0; k < stride_; ++k) sum[k] += block_[k];
  }
}

// Adds the rows that are left in `to` and not in `from`, times a factor.
// Returns their number.
int64_t TwoMeans::AddMoved(const std::vector<uint8_t>& from,
                           const std::vector<uint8_t>& to, float factor,
                           std::vector<float>* direction) {
  places_.clear();
  int64_t i = 0;
  // Most words are equal.
  for (uint64_t a, b; i + 8 <= count_; i += 8) {
    std::memcpy(&a, &from[i], sizeof(a));
    std::memcpy(&b, &to[i], sizeof(b));
    if ((b & ~a) == 0) continue;
    for (int64_t k = i; k < i + 8; ++k) {
      if (to[k] > from[k]) places_.push_back(k);
    }
  }
  for (; i < count_; ++i) {
    if (to[i] > from[i]) places_.push_back(i);
  }
  const auto count = static_cast<int64_t>(places_.size());
  kernels_.add_rows(rows_.get(), count, stride_, places_.data(), factor,
                    direction->data());
  return count;
}

// Finds compact parts of the rows, whose mean is 0. With `improve`, from parts_
// on; its left part has `num_left` rows.
void TwoMeans::Learn(int64_t num_left, uint32_t draw, bool improve) {
  FindPrincipal(draw);
  if (!improve) {
    parts_.direction = principal_;
    return Iterate(num_left, false, &parts_);
  }
  Iterate(num_left, true, &parts_);
  others_.direction = principal_;
  // An axis has two ends: take the one that moves fewer points.
  if (Dot(principal_, parts_.direction) < 0) {
    for (float& x : others_.direction) x = -x;
  }
  Iterate(num_left, false, &others_);
  // All sums of squared distances to the means are a constant less a multiple
  // of the square of the direction.
  if (Dot(others_.direction, others_.direction) >
      1.00001 * Dot(parts_.direction, parts_.direction)) {
    std::swap(parts_, others_);
  }
}

// Finds about the principal direction of the rows, by power steps.
void TwoMeans::FindPrincipal(uint32_t draw) {
  principal_.assign(stride_, 0);
  for (int64_t k = 0; k < points_.width; k += 4) {
    const PhiloxBlock block = Random(draw, 0, static_cast<uint32_t>(k / 4));
    for (int64_t i = k; i < std::min(k + 4, points_.width); ++i) {
      principal_[i] = static_cast<float>(block.words[i - k]) * 0x1p-31f - 1;
    }
  }
  for (int step = 0; step < kPowerSteps; ++step) {
    block_.assign(stride_, 0);
    kernels_.add_projected(rows_.get(), count_, stride_, principal_.data(),
                           block_.data());
    float largest = 0;
    for (float x : block_) largest = std::max(largest, std::abs(x));
    if (largest > 0) {
      for (float& x : block_) x /= largest;
    }
    principal_.swap(block_);
  }
}

// Runs Lloyd's algorithm until hardly any point moves, from given parts or from
// a direction. As the mean of the rows is 0, the sum of the left part is the
// direction from the mean of the right one to the mean of the left, times a
// constant.
void TwoMeans::Iterate(int64_t num_left, bool has_parts, Parts* parts) {
  std::vector<float>* const direction = &parts->direction;
  before_.assign(count_, 0);
  if (has_parts) {
    direction->assign(stride_, 0);
    AddMoved(before_, parts->is_left, 1, direction);
  }
  scores_.resize(count_);
  for (int64_t step = 0; step < points_.max_iterations; ++step) {
    const bool is_first = step == 0 && !has_parts;
    if (!is_first) before_ = parts->is_left;
    kernels_.project(rows_.get(), count_, stride_, direction->data(),
                     scores_.data());
    Select(num_left, &parts->is_left);
    if (is_first) direction->assign(stride_, 0);
    const int64_t moved = AddMoved(before_, parts->is_left, 1, direction);
    AddMoved(parts->is_left, before_, -1, direction);
    if (!is_first && moved * kStillMoving <= count_) break;
  }
}

// Marks the `num_left` largest of count_ scores, the first ones where some tie.
void TwoMeans::Select(int64_t num_left, std::vector<uint8_t>* is_left) {
  keys_.resize(count_);
  int32_t least, most;
  kernels_.keys(scores_.data(), count_, keys_.data(), &least, &most);
  // The largest key that as many keys reach.
  constexpr int64_t kFew = 256;
  if (count_ <= kFew) {
    int32_t few[kFew];
    std::copy_n(keys_.data(), count_, few);
    int32_t* const cut = few + (count_ - num_left);
    std::nth_element(few, cut, few + count_);
    least = most = *cut;
  }
  while (least < most) {
    const auto middle =
        static_cast<int32_t>(most - (static_cast<int64_t>(most) - least) / 2);
    if (kernels_.mark(keys_.data(), count_, middle - 1, nullptr) >= num_left) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  is_left->resize(count_);
  int64_t num_tied =
      num_left - kernels_.mark(keys_.data(), count_, least, is_left->data());
  for (int64_t i = 0; num_tied > 0; ++i) {
    if (keys_[i] != least) continue;
    (*is_left)[i] = 1;
    --num_tied;
  }
}

}  // namespace tf_hsm
