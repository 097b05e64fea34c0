// What tests share: cases, conversions, comparisons.

#ifndef TF_HSM_CC_CORE_TESTING_TEST_SUPPORT_H_
#define TF_HSM_CC_CORE_TESTING_TEST_SUPPORT_H_

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <type_traits>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/base/types.h"
#include "cc/core/testing/trees.h"
#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// A batch and the tree (RandomTree), or the forest, that it is for.
struct Case {
  int batch;
  int width;
  int groups;
  int most;
  double inner;
  int trees = 1;
  double label_smoothing = 0;
  bool pinned = false;
  bool has_prior = false;  // of the label smoothing
  double soft_cap = 0;     // of the logits; 0: none
  double z_loss = 0;

  // Whether it is one of a tree without options.
  constexpr bool is_plain() const {
    return trees == 1 && !pinned && label_smoothing + soft_cap + z_loss == 0;
  }
};

// A tree of one group of nine rows or more, as these two options want it.
constexpr Case FlatCase(int batch, int width, int most, double soft_cap,
                        double z_loss, double label_smoothing = 0,
                        bool has_prior = false) {
  return {batch,           width, 1,         most,     0,     1,
          label_smoothing, false, has_prior, soft_cap, z_loss};
}

// The cases of losses and training steps.
constexpr Case kLossCases[] = {
    {1, 1, 1, 1, 0},
    {1, 3, 1, 300, 0},
    {5, 16, 3, 4, 0.5},
    {33, 17, 40, 9, 0.3},
    {252, 50, 20, 90, 0.1},
    {123, 64, 300, 2, 0.9},
    {70, 100, 60, 13, 1},
    {9, 131, 200, 1, 1},
    {400, 7, 5, 200, 0.05},
    {0, 5, 3, 3, 0.5},
    {6, 5000, 3, 12, 0.2},
    {150, 77, 3, 900, 0.01},
    {300, 33, 60, 40, 1},
    {333, 70, 2, 150, 0.3},
    // Forests: mixed, of deep trees, of single groups.
    {60, 33, 9, 20, 0.5, 5},
    {333, 20, 40, 3, 0.8, 7},
    {90, 17, 1, 40, 0, 40},
    // Flat trees with a soft cap, a z-loss or both.
    FlatCase(70, 17, 300, 2, 0),
    FlatCase(33, 77, 90, 0, 0.125),
    FlatCase(130, 20, 900, 1.5, 0.0625),
    FlatCase(9, 256, 40, 3, 0.125),
    FlatCase(33, 17, 60, 0, 0.125, 0.25),
    FlatCase(33, 17, 60, 0, 0.125, 0.25, true),
    // With label smoothing.
    {33, 17, 40, 9, 0.3, 1, 0.5},
    {252, 50, 20, 90, 0.1, 1, 0.25},
    {123, 64, 300, 2, 0.9, 1, 0.25},
    {300, 33, 60, 40, 1, 1, 0.125},
    {150, 77, 3, 900, 0.01, 1, 1},
    {60, 33, 9, 20, 0.5, 5, 0.25},
    // Towards a prior.
    {33, 17, 40, 9, 0.3, 1, 0.5, false, true},
    {252, 50, 20, 90, 0.1, 1, 0.25, false, true},
    {123, 64, 300, 2, 0.9, 1, 0.25, false, true},
    {150, 77, 3, 900, 0.01, 1, 1, false, true},
    {60, 33, 9, 20, 0.5, 5, 0.25, false, true},
    {123, 31, 100, 2, 0.9, 1, 0.25, true, true},
    // Pinned: one block of examples and several; a forest.
    {1, 1, 1, 2, 0, 1, 0, true},
    {29, 20, 90, 2, 0.7, 1, 0, true},
    {123, 64, 300, 2, 0.9, 1, 0, true},
    {170, 37, 40, 2, 0.5, 3, 0, true},
    {200, 5, 150, 2, 0, 1, 0, true},
    {123, 31, 100, 2, 0.9, 1, 0.25, true},
    // Spans of several blocks.
    {1100, 3, 90, 2, 0.7},
    {1600, 2, 300, 2, 0.6, 1, 0, true},
    {1030, 4, 30, 5, 0.6, 2}};

template <typename Rng>
OwnedTree RandomForest(const Case& c, Rng* rng) {
  OwnedTree tree;
  do {
    tree = RandomForest(c.trees, c.groups, c.most, c.inner, rng, c.pinned);
  } while (c.soft_cap + c.z_loss > 0 && tree.row_groups.size() < 9);
  return tree;
}

// A prior of label smoothing [rows], many of whose shares are zero; those of a
// group sum to 1 exactly.
template <typename Rng>
std::vector<float> DrawPrior(const TreeView& tree, Rng* rng) {
  std::vector<float> prior(tree.num_rows);
  for (int64_t group = 0; group < tree.num_groups; ++group) {
    const int64_t first = tree.group_offsets[group];
    // The differences of sorted numbers from 0 to 1.
    std::vector<float> cuts(tree.group_offsets[group + 1] - first, 1);
    const unsigned parts = (*rng)() % 2 == 0 ? 8 : 1 << 20;
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      cuts[k] = static_cast<float>((*rng)() % (parts + 1)) / parts;
    }
    std::sort(cuts.begin(), cuts.end());
    for (size_t k = 0; k < cuts.size(); ++k) {
      prior[first + k] = cuts[k] - (k == 0 ? 0 : cuts[k - 1]);
    }
  }
  return prior;
}

// The prior of a case; empty where it has none.
template <typename Rng>
std::vector<float> DrawPrior(const Case& c, const TreeView& tree, Rng* rng) {
  return c.has_prior ? DrawPrior(tree, rng) : std::vector<float>();
}

template <typename T>
T FromDouble(double value) {
  return static_cast<T>(value);
}
template <>
inline bfloat16 FromDouble(double value) {
  const float rounded = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  return {static_cast<uint16_t>(bits >> 16)};
}
// Exact for the multiples of 1/64 below 16 that the tests draw, for infinities
// and for NaN.
template <>
inline half FromDouble(double value) {
  if (value == 0) return {0};
  const int sign = value < 0 ? 0x8000 : 0;
  if (!std::isfinite(value)) {
    return {
        static_cast<uint16_t>(sign | (std::isnan(value) ? 0x7e00 : 0x7c00))};
  }
  int exponent;
  const double mantissa = std::frexp(std::fabs(value), &exponent);
  const int bits = static_cast<int>(mantissa * 2048) - 1024;
  return {static_cast<uint16_t>(sign | ((exponent + 14) << 10) | bits)};
}
inline double ToDouble(double value) { return value; }
inline double ToDouble(float value) { return value; }
inline double ToDouble(bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline double ToDouble(half value) {
  const int exponent = (value.bits >> 10) & 31;
  const int mantissa = value.bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24)
                           : exponent < 31
                               ? std::ldexp(1024 + mantissa, exponent - 25)
                           : mantissa == 0 ? INFINITY
                                           : double{NAN};
  return value.bits & 0x8000 ? -magnitude : magnitude;
}

// A Parallel that begins with the last item. A sanitizer that looks for races
// has them on threads.
inline void Reversed(int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> left{count};
  auto drain = [&] {
    for (int64_t i = --left; i >= 0; i = --left) work(i);
  };
#if defined(__SANITIZE_THREAD__)
  std::thread helpers[2];
  for (std::thread& helper : helpers) helper = std::thread(drain);
  drain();
  for (std::thread& helper : helpers) helper.join();
#else
  drain();
#endif
}

inline int failures = 0;
inline int64_t checks = 0;  // a fuzzer makes more than 2^31

// What is infinite or NaN must be the same.
inline void Near(double got, double want, double tolerance,
                 const std::string& what) {
  ++checks;
  if (std::isnan(want) ? std::isnan(got) : got == want) return;
  if (std::fabs(got - want) <= tolerance * (1 + std::fabs(want)) &&
      std::isfinite(want)) {
    return;
  }
  if (++failures < 20) {
    std::printf("FAILED %s: got %.17g, want %.17g\n", what.c_str(), got, want);
  }
}

// Prints a failure unless `good`.
inline void Expect(bool good, const std::string& what) {
  ++checks;
  if (good) return;
  if (++failures < 20) std::printf("FAILED %s\n", what.c_str());
}

template <typename A>
bool SameBits(const std::vector<A>& a, const std::vector<A>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0);
}

// `count` multiples of 1/64 in [-range / 64, range / 64).
template <typename T, typename Rng>
std::vector<T> Draw(size_t count, int range, Rng* rng) {
  std::vector<T> values(count);
  for (T& v : values) {
    const int n = static_cast<int>((*rng)() % (2 * range)) - range;
    v = FromDouble<T>(n / 64.0);
  }
  return values;
}

template <typename T>
std::vector<double> ToDoubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (T v : values) result.push_back(ToDouble(v));
  return result;
}

// The largest error of dx [examples, width] as the product of dz [examples,
// rows] and w [rows, width], relative to 1 and the magnitudes that are added;
// infinite if one is NaN.
template <typename T, typename A>
double ProductError(const std::vector<A>& dz, const std::vector<T>& w,
                    const std::vector<A>& dx, int64_t examples) {
  double worst = 0;
  for (int64_t at = 0; at < static_cast<int64_t>(dx.size()); ++at) {
    const int64_t rows = dz.size() / examples, width = dx.size() / examples;
    double sum = 0, size = 1;
    for (int64_t r = 0; r < rows; ++r) {
      const double term = ToDouble(dz[at / width * rows + r]) *
                          ToDouble(w[r * width + at % width]);
      sum += term;
      size += std::fabs(term);
    }
    const double error = std::fabs(dx[at] - sum) / size;
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

// The standardized chi-square of counts against what is expected.
inline double ChiSquare(const std::vector<double>& counts,
                        const std::vector<double>& expected) {
  double sum = 0, freedom = -1, rest = 0, rest_expected = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] < 10) {
      rest += counts[i];
      rest_expected += expected[i];
      continue;
    }
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
    ++freedom;
  }
  if (rest_expected >= 1) {
    sum += (rest - rest_expected) * (rest - rest_expected) / rest_expected;
    ++freedom;
  } else {
    Expect(rest < 20, "draws of what is hardly ever drawn");
  }
  return freedom > 0 ? (sum - freedom) / std::sqrt(2 * freedom) : 0;
}

// The rounding of a stored T, and of its accumulator.
struct Rounding {
  double store, sum;
};
template <typename T>
Rounding RoundingOf() {
  const double sum = std::ldexp(1.0, sizeof(T) == 8 ? -53 : -24);
  if (sizeof(T) > 2) return {sum, sum};
  return {std::ldexp(1.0, std::is_same_v<T, half> ? -11 : -8), sum};
}

// Calls check(T(), name) for every element type.
template <typename Function>
void ForEachType(const Function& check) {
  check(double(), "double");
  check(float(), "float");
  check(bfloat16(), "bfloat16");
  check(half(), "half");
}

// Calls check(T(), isa, name) for every ISA and element type.
template <typename Function>
void ForEachKernel(const Function& check) {
  for (Isa isa : SupportedIsas()) {
    const std::string name = std::string(IsaName(isa)) + " ";
    ForEachType(
        [&](auto zero, const char* type) { check(zero, isa, name + type); });
    std::printf("%s: done\n", IsaName(isa));
  }
}

// The name of a case.
inline std::string NameOf(const Case& c) {
  return " B=" + std::to_string(c.batch) + " D=" + std::to_string(c.width) +
         " G=" + std::to_string(c.groups) + " K<=" + std::to_string(c.most) +
         (c.trees > 1 ? " forest" : "") + (c.pinned ? " pinned" : "");
}

// Near, of each number.
template <typename T, typename A>
void NearAll(const std::vector<T>& got, const std::vector<A>& want,
             double tolerance, const std::string& what) {
  Expect(got.size() == want.size(), what + " size");
  for (size_t i = 0; i < want.size() && i < got.size(); ++i) {
    Near(ToDouble(got[i]), want[i], tolerance, what);
  }
}

// Prints the count of checks; returns the exit status of the test.
inline int Summarize() {
  std::printf("%" PRId64 " checks, %d failed\n", checks, failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_TEST_SUPPORT_H_
