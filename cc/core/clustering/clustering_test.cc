// The clustering of points, against definitions in double precision.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/clustering/exchange.h"
#include "cc/core/clustering/near_pairs.h"
#include "cc/core/clustering/two_means.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// Points whose variances fall along the axes, as vectors of words have them.
struct Cloud {
  std::vector<float> rows;
  Points points;

  Cloud(int64_t count, int64_t width, Isa isa, std::mt19937* rng)
      : rows(count * width) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = normal(*rng) / std::sqrt(1.0f + i % width);
    }
    points = {rows.data(), count, width, (*rng)(), 100, isa};
  }

  // The sum of squared distances of some points to their mean.
  double Within(const int64_t* members, int64_t count) const {
    double total = 0;
    for (int64_t k = 0; k < points.width; ++k) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < count; ++i) {
        const double x = rows[members[i] * points.width + k];
        sum += x;
        squares += x * x;
      }
      total += squares - sum * sum / count;
    }
    return total;
  }
};

std::vector<int64_t> Iota(int64_t count) {
  std::vector<int64_t> result(count);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

// A split has the right sizes and keeps the order; no point is nearer to the
// mean of the other part than one that lies there; and where there was a split
// before, it is not worse. Returns how much is left within the parts, and
// whether no split leaves less.
std::pair<double, bool> CheckSplit(Isa isa, int64_t count, int64_t num_left,
                                   int64_t width, bool improve,
                                   std::mt19937* rng) {
  const std::string what = std::string(IsaName(isa)) + " split ";
  const Cloud cloud(count, width, isa, rng);
  TwoMeans two_means(cloud.points);
  std::vector<int64_t> order = Iota(count);
  const int64_t num_right = count - num_left;
  int64_t *left = order.data(), *right = left + num_left;
  const double before =
      cloud.Within(left, num_left) + cloud.Within(right, num_right);
  std::vector<float> means(2 * two_means.stride());
  float* ends[2] = {means.data(), means.data() + two_means.stride()};
  two_means.Mean(left, num_left, ends[0]);
  two_means.Mean(right, num_right, ends[1]);
  float* none[2] = {nullptr, nullptr};
  const int64_t moved = two_means.Split(left, num_left, right, num_right, 3,
                                        *(improve ? &ends : &none));
  Expect(std::is_sorted(left, right) && std::is_sorted(right, left + count),
         what + "order");
  Expect(std::set<int64_t>(order.begin(), order.end()).size() == order.size(),
         what + "points");
  Expect(std::count_if(left, right, [&](int64_t p) { return p >= num_left; }) ==
             moved,
         what + "moved");
  const double after =
      cloud.Within(left, num_left) + cloud.Within(right, num_right);
  if (improve) Expect(after <= before + 1e-4, what + "is not worse");
  std::vector<std::vector<double>> centers(2, std::vector<double>(width));
  for (int64_t i = 0; i < count; ++i) {
    const int part = i >= num_left;
    for (int64_t k = 0; k < width; ++k) {
      centers[part][k] += cloud.rows[order[i] * width + k] /
                          double(part == 0 ? num_left : num_right);
    }
  }
  // How much farther from the right mean than from the left one.
  double least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    double gain = 0;
    for (int64_t k = 0; k < width; ++k) {
      const double x = cloud.rows[order[i] * width + k];
      gain += std::pow(x - centers[1][k], 2) - std::pow(x - centers[0][k], 2);
    }
    if (i < num_left) least = std::min(least, gain);
    if (i >= num_left) most = std::max(most, gain);
  }
  Expect(least >= most - 1e-4, what + "is a minimum");
  for (int part = 0; part < 2 && improve; ++part) {
    for (int64_t k = 0; k < two_means.stride(); ++k) {
      Near(ends[part][k], k < width ? centers[part][k] : 0, 1e-5,
           what + "mean");
    }
  }
  bool is_best = count < 12;
  for (int64_t set = 0; set < (count < 12 ? 1 << count : 0); ++set) {
    std::vector<int64_t> parts[2];
    for (int64_t i = 0; i < count; ++i) parts[set >> i & 1].push_back(i);
    if (static_cast<int64_t>(parts[0].size()) != num_left) continue;
    is_best &= cloud.Within(parts[0].data(), num_left) +
                   cloud.Within(parts[1].data(), num_right) >=
               after - 1e-5;
  }
  return {after / before, is_best};
}

void CheckSplits(Isa isa, std::mt19937* rng) {
  int num_best = 0;
  double gain = 0;
  for (int round = 0; round < 40; ++round) {
    for (bool improve : {false, true}) {
      const int64_t num_left = 1 + (*rng)() % 6;
      const auto [share, is_best] =
          CheckSplit(isa, 7, num_left, 3, improve, rng);
      num_best += is_best;
      gain += 1 - share;
      CheckSplit(isa, 300 + (*rng)() % 50, 1 + (*rng)() % 299,
                 1 + (*rng)() % 70, improve, rng);
    }
  }
  Expect(num_best >= 25, std::to_string(num_best) + " of 80 are the best");
  Expect(gain > 10, "splits gain");
}

// A good split becomes better or stays, and few points change their part.
void CheckSecondSplit(Isa isa, std::mt19937* rng) {
  constexpr int64_t kHalf = 40;
  const Cloud cloud(2 * kHalf, 5, isa, rng);
  TwoMeans two_means(cloud.points);
  std::vector<int64_t> order = Iota(2 * kHalf);
  double last = INFINITY;
  for (int time = 0; time < 4; ++time) {
    std::vector<float> means(2 * two_means.stride());
    float* const ends[2] = {&means[0], &means[two_means.stride()]};
    two_means.Mean(&order[0], kHalf, ends[0]);
    two_means.Mean(&order[kHalf], kHalf, ends[1]);
    const int64_t moved =
        two_means.Split(&order[0], kHalf, &order[kHalf], kHalf, time, ends);
    const double within =
        cloud.Within(&order[0], kHalf) + cloud.Within(&order[kHalf], kHalf);
    Expect(within <= last * (1 + 1e-6), "a second split is not worse");
    Expect(time == 0 || moved <= kHalf / 2, "few points move");
    last = within;
  }
}

// The first of equal points are left, and a split learned from a sample is
// right for all points: in one dimension it can only be a cut.
void CheckLargeSplits(Isa isa, std::mt19937* rng) {
  const Cloud cloud(300000, 1, isa, rng);
  std::vector<int64_t> order = Iota(300000);
  TwoMeans two_means(cloud.points);
  for (int64_t num_left : {300000 - 1, 100000}) {
    two_means.Split(&order[0], num_left, &order[num_left], 300000 - num_left, 0,
                    {nullptr, nullptr});
    double ends[2][2];
    for (int part = 0; part < 2; ++part) {
      const auto begin = order.begin() + part * num_left;
      const auto end = part == 0 ? begin + num_left : order.end();
      const auto [low, high] = std::minmax_element(
          begin, end,
          [&](int64_t a, int64_t b) { return cloud.rows[a] < cloud.rows[b]; });
      ends[part][0] = cloud.rows[*low];
      ends[part][1] = cloud.rows[*high];
    }
    Expect(ends[0][1] <= ends[1][0] || ends[1][1] <= ends[0][0], "a cut");
  }
  const std::vector<float> zeros(300 * 3);
  const Points equal = {zeros.data(), 300, 3, 7, 5, isa};
  order = Iota(300);
  TwoMeans of_equal(equal);
  std::vector<float> means(2 * of_equal.stride());
  of_equal.Split(&order[0], 100, &order[100], 200, 0, {nullptr, nullptr});
  of_equal.Split(&order[0], 100, &order[100], 200, 0,
                 {&means[0], &means[of_equal.stride()]});
  Expect(order == Iota(300), "equal points stay");
}

// A sample has points of all kinds, also where kinds alternate.
void CheckAlternating(Isa isa, std::mt19937* rng) {
  constexpr int64_t kCount = 1 << 19;
  Cloud cloud(kCount, 3, isa, rng);
  for (int64_t i = 1; i < kCount; i += 2) cloud.rows[3 * i] += 20;
  std::vector<int64_t> order = Iota(kCount);
  TwoMeans two_means(cloud.points);
  two_means.Split(&order[0], kCount / 2, &order[kCount / 2], kCount / 2, 0,
                  {nullptr, nullptr});
  for (int64_t i = 1; i < kCount / 2; ++i) {
    if (order[i] % 2 != order[0] % 2)
      return Expect(false, "one kind of points");
  }
}

// A split that is learned from a sample is not worse either.
void CheckWideSplit(Isa isa, std::mt19937* rng) {
  constexpr int64_t kHalf = 1100, kWidth = 4096;
  Cloud cloud(2 * kHalf, kWidth, isa, rng);
  std::normal_distribution<float> normal;
  for (float& x : cloud.rows) x = normal(*rng);
  std::vector<int64_t> order = Iota(2 * kHalf);
  int64_t *left = order.data(), *right = left + kHalf;
  TwoMeans two_means(cloud.points);
  std::vector<float> means(2 * two_means.stride());
  float* const ends[2] = {&means[0], &means[two_means.stride()]};
  two_means.Split(left, kHalf, right, kHalf, 0, {nullptr, nullptr});
  two_means.Mean(left, kHalf, ends[0]);
  two_means.Mean(right, kHalf, ends[1]);
  double last = INFINITY;
  for (int time = 0; time < 6; ++time) {
    const double within =
        cloud.Within(left, kHalf) + cloud.Within(right, kHalf);
    Expect(within <= last * (1 + 1e-9), "a sampled split is not worse");
    last = within;
    two_means.Split(left, kHalf, right, kHalf, time, ends);
  }
}

// Pairs are those that one finds by taking the nearest two again and again.
void CheckMatch(Isa isa, int64_t count, std::mt19937* rng) {
  const Cloud cloud(count, 16, isa, rng);
  std::vector<float> splits(count * count);
  NearPairs near(PointKernelsFor(isa), cloud.rows.data(), count, 16,
                 splits.data());
  near.Update(Iota(count), Serial);
  std::vector<std::vector<double>> distances(count, std::vector<double>(count));
  std::vector<std::vector<int>> times(count, std::vector<int>(count));
  std::set<NearPairs::Pair> settled;
  for (int round = 0; round < 6; ++round) {
    std::vector<std::pair<double, NearPairs::Pair>> all;
    for (int64_t a = 0; a < count; ++a) {
      for (int64_t b = a + 1; b < count; ++b) {
        double square = 0;
        for (int64_t k = 0; k < 16; ++k) {
          square += std::pow(
              double{cloud.rows[a * 16 + k]} - cloud.rows[b * 16 + k], 2);
        }
        if (settled.count({a, b}) == 0) {
          all.push_back({square * std::sqrt(1.0 + times[a][b]), {a, b}});
        }
      }
    }
    std::sort(all.begin(), all.end());
    std::set<int64_t> taken;
    std::vector<NearPairs::Pair> greedy;
    for (const auto& [distance, pair] : all) {
      if (taken.count(pair.first) + taken.count(pair.second) > 0) continue;
      greedy.push_back(pair);
      taken.insert({pair.first, pair.second});
    }
    std::vector<NearPairs::Pair> pairs = near.Match();
    std::sort(pairs.begin(), pairs.end());
    std::sort(greedy.begin(), greedy.end());
    Expect(pairs == greedy, std::string(IsaName(isa)) + " pairs");
    std::vector<int64_t> changed;
    for (const auto& [a, b] : pairs) {
      if ((*rng)() % 2 == 0) continue;
      changed.insert(changed.end(), {a, b});
    }
    for (auto it = settled.begin(); it != settled.end();) {
      const bool is_new =
          std::count(changed.begin(), changed.end(), it->first) +
              std::count(changed.begin(), changed.end(), it->second) >
          0;
      it = is_new ? settled.erase(it) : std::next(it);
    }
    for (const auto& [a, b] : pairs) {
      ++times[a][b];
      settled.insert({a, b});
    }
    near.AddSplits(pairs, changed);
    near.Update(changed, Serial);
  }
}

// Rounds make clusters more compact and keep their sizes, whatever the threads.
void CheckExchange(Isa isa, std::mt19937* rng) {
  constexpr int64_t kClusters = 40;
  const Cloud cloud(2000, 8, isa, rng);
  std::vector<int64_t> starts, sizes;
  for (int64_t i = 0, begin = 0; i < kClusters; ++i) {
    starts.push_back(begin);
    sizes.push_back(i + 1 < kClusters ? 30 + i : 2000 - begin);
    begin += sizes.back();
  }
  double last = INFINITY;
  for (int64_t rounds : {1, 2, 5, 30}) {
    std::vector<int64_t> orders[2];
    for (int reversed = 0; reversed < 2; ++reversed) {
      orders[reversed] = Iota(2000);
      std::vector<float> splits(kClusters * kClusters);
      const Exchanged done = Exchange(
          cloud.points, {starts.data(), sizes.data(), kClusters, splits.data()},
          rounds, reversed == 0 ? Parallel(Serial) : Parallel(Reversed),
          orders[reversed].data());
      Expect(done.points > 0 && done.points % 2 == 0, "points move");
      double sum = 0;
      for (float times : splits) sum += std::abs(times);
      Expect(sum == 2 * done.pairs, "splits are counted");
    }
    Expect(orders[0] == orders[1], "the same in any order");
    double within = 0;
    for (int64_t i = 0; i < kClusters; ++i) {
      within += cloud.Within(&orders[0][starts[i]], sizes[i]);
    }
    Expect(within < (rounds == 1 ? INFINITY : 0.97 * last), "more compact");
    last = within;
    std::sort(orders[0].begin(), orders[0].end());
    Expect(orders[0] == Iota(2000), "a permutation");
  }
  // Two clusters are done after one split, and more after some.
  std::vector<int64_t> order = Iota(2000);
  std::vector<float> splits(4);
  const int64_t halves[2][2] = {{0, 1000}, {1000, 1000}};
  const Exchanged done =
      Exchange(cloud.points, {halves[0], halves[1], 2, splits.data()}, 50,
               Serial, order.data());
  Expect(done.pairs == 1 && splits[1] == -1 && splits[2] == -1, "settled");
  splits.assign(kClusters * kClusters, 0);
  constexpr int64_t kRounds = 1000;
  const Exchanged more = Exchange(
      cloud.points, {starts.data(), sizes.data(), kClusters, splits.data()},
      kRounds, Serial, order.data());
  Expect(more.pairs < kRounds * kClusters / 4, "no pair is left");
}

void CheckHalve(Isa isa, std::mt19937* rng) {
  const Cloud cloud(2000, 5, isa, rng);
  std::vector<int64_t> orders[2], runs;
  for (int64_t begin = 3; begin < 1900; begin += 60) {
    runs.insert(runs.end(), {begin, begin + 20, begin + 57});
  }
  const auto count = static_cast<int64_t>(runs.size() / 3);
  for (int reversed = 0; reversed < 2; ++reversed) {
    orders[reversed] = Iota(2000);
    Halve(cloud.points, runs.data(), count,
          reversed == 0 ? Parallel(Serial) : Parallel(Reversed),
          orders[reversed].data());
  }
  Expect(orders[0] == orders[1], "the same in any order");
  double before = 0, after = 0;
  const std::vector<int64_t> old = Iota(2000);
  for (int64_t p = 0; p < count; ++p) {
    for (int part = 0; part < 2; ++part) {
      const int64_t begin = runs[3 * p + part];
      const int64_t size = runs[3 * p + part + 1] - begin;
      before += cloud.Within(&old[begin], size);
      after += cloud.Within(&orders[0][begin], size);
    }
    Expect(orders[0][runs[3 * p] - 1] == runs[3 * p] - 1, "others stay");
  }
  Expect(after < 0.8 * before, "halves are compact");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937 rng(1);
  for (tf_hsm::Isa isa : tf_hsm::SupportedIsas()) {
    tf_hsm::CheckSplits(isa, &rng);
    for (int i = 0; i < 50; ++i) tf_hsm::CheckSecondSplit(isa, &rng);
    tf_hsm::CheckLargeSplits(isa, &rng);
    tf_hsm::CheckAlternating(isa, &rng);
    tf_hsm::CheckWideSplit(isa, &rng);
    for (int64_t count : {1, 2, 3, 8, 31, 50}) {
      tf_hsm::CheckMatch(isa, count, &rng);
    }
    tf_hsm::CheckExchange(isa, &rng);
    tf_hsm::CheckHalve(isa, &rng);
  }
  return tf_hsm::Summarize();
}
