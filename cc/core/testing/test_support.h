// What the tests of the core share: random trees, conversions, comparisons.

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
#include <random>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "cc/core/base/types.h"
#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

struct OwnedTree {
  std::vector<int64_t> offsets = {0}, parents, class_rows, row_groups, ranks,
                       row_below;
  std::vector<int64_t> roots;  // their groups, if there are several
  bool pinned = false;
  TreeView view() const {
    TreeView view = {static_cast<int64_t>(class_rows.size()),
                     static_cast<int64_t>(row_groups.size()),
                     static_cast<int64_t>(parents.size()),
                     offsets.data(),
                     parents.data(),
                     class_rows.data(),
                     row_groups.data(),
                     ranks.data(),
                     row_below.data()};
    if (roots.size() > 1) {
      view.num_roots = roots.size();
      view.root_groups = roots.data();
    }
    view.pinned = pinned;
    return view;
  }
};

// A breadth-first tree of `groups` groups with fanouts drawn from [1, most], or
// a pinned one; `inner` is the chance that a row has a group below it.
template <typename Rng>
OwnedTree RandomTree(int groups, int most, double inner, Rng* rng,
                     bool pinned = false) {
  OwnedTree tree;
  tree.pinned = pinned;
  std::vector<int64_t> child;  // row -> group below, or -1
  std::uniform_real_distribution<double> uniform(0, 1);
  int64_t waiting = 1;  // groups promised to rows
  for (int64_t g = 0; g < waiting; ++g) {
    if (g == 0) tree.parents.push_back(-1);
    const int64_t fanout =
        pinned ? 2 : 1 + static_cast<int64_t>((*rng)() % most);
    for (int64_t k = 0; k < fanout; ++k) {
      const int64_t row = child.size();
      const bool last_chance = g + 1 == waiting && k + 1 == fanout;
      const bool grows =
          waiting < groups && (uniform(*rng) < inner || last_chance);
      child.push_back(grows ? waiting++ : -1);
      if (grows) tree.parents.push_back(row);
      tree.row_groups.push_back(g);
    }
    tree.offsets.push_back(child.size());
  }
  // Leaves get shuffled classes; depth-first ranks from an explicit stack.
  std::vector<int64_t> leaves;
  for (size_t r = 0; r < child.size(); ++r) {
    if (child[r] < 0) leaves.push_back(r);
  }
  std::shuffle(leaves.begin(), leaves.end(), *rng);
  tree.class_rows = leaves;
  std::vector<int64_t> row_class(child.size(), -1);
  for (size_t c = 0; c < leaves.size(); ++c) row_class[leaves[c]] = c;
  for (size_t r = 0; r < child.size(); ++r) {
    tree.row_below.push_back(child[r] < 0 ? ~row_class[r] : child[r]);
  }
  tree.ranks.resize(leaves.size());
  int64_t rank = 0;
  std::vector<int64_t> stack;
  for (int64_t r = tree.offsets[1]; r-- > 0;) stack.push_back(r);
  while (!stack.empty()) {
    const int64_t row = stack.back();
    stack.pop_back();
    if (child[row] < 0) {
      tree.ranks[row_class[row]] = rank++;
      continue;
    }
    const int64_t g = child[row];
    for (int64_t r = tree.offsets[g + 1]; r-- > tree.offsets[g];) {
      stack.push_back(r);
    }
  }
  return tree;
}

// A forest of so many such trees; the classes of all of them are shuffled.
template <typename Rng>
OwnedTree RandomForest(int trees, int groups, int most, double inner, Rng* rng,
                       bool pinned = false) {
  OwnedTree all = RandomTree(groups, most, inner, rng, pinned);
  if (trees < 2) return all;
  all.roots = {0};
  for (int i = 1; i < trees; ++i) {
    const OwnedTree tree = RandomTree(groups, most, inner, rng, pinned);
    const int64_t first_group = all.parents.size();
    const int64_t first_row = all.row_groups.size();
    const int64_t first_class = all.class_rows.size();
    all.roots.push_back(first_group);
    for (size_t g = 0; g < tree.parents.size(); ++g) {
      all.parents.push_back(g == 0 ? -1 : first_row + tree.parents[g]);
      all.offsets.push_back(first_row + tree.offsets[g + 1]);
    }
    for (size_t row = 0; row < tree.row_groups.size(); ++row) {
      all.row_groups.push_back(first_group + tree.row_groups[row]);
      const int64_t below = tree.row_below[row];
      all.row_below.push_back(below < 0 ? below : first_group + below);
    }
    for (size_t c = 0; c < tree.class_rows.size(); ++c) {
      all.class_rows.push_back(first_row + tree.class_rows[c]);
      all.ranks.push_back(first_class + tree.ranks[c]);
    }
  }
  for (size_t c = all.class_rows.size(); c > 1; --c) {
    const size_t other = (*rng)() % c;
    std::swap(all.class_rows[c - 1], all.class_rows[other]);
    std::swap(all.ranks[c - 1], all.ranks[other]);
  }
  for (size_t c = 0; c < all.class_rows.size(); ++c) {
    all.row_below[all.class_rows[c]] = ~static_cast<int64_t>(c);
  }
  return all;
}

// The number of the tree that each group is in.
inline std::vector<int64_t> RootsOfGroups(const TreeView& tree) {
  std::vector<int64_t> roots;
  for (int64_t g = 0; g < tree.num_groups; ++g) {
    const int64_t before = roots.empty() ? -1 : roots.back();
    roots.push_back(before + (tree.group_parents[g] < 0));
  }
  return roots;
}

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
};

// A tree of one group of nine rows or more, as these two options want it.
constexpr Case FlatCase(int batch, int width, int most, double soft_cap,
                        double z_loss, double label_smoothing = 0,
                        bool has_prior = false) {
  return {batch,           width, 1,         most,     0,     1,
          label_smoothing, false, has_prior, soft_cap, z_loss};
}

template <typename Rng>
OwnedTree RandomForest(const Case& c, Rng* rng) {
  OwnedTree tree;
  do {
    tree = RandomForest(c.trees, c.groups, c.most, c.inner, rng, c.pinned);
  } while (c.soft_cap + c.z_loss > 0 && tree.row_groups.size() < 9);
  return tree;
}

// A prior of label smoothing [rows], many of whose shares are zero; those of a
// group sum to 1 exactly. Empty where a case has none.
template <typename Rng>
std::vector<float> DrawPrior(const Case& c, const TreeView& tree, Rng* rng) {
  std::vector<float> prior(c.has_prior ? tree.num_rows : 0);
  for (int64_t group = 0; c.has_prior && group < tree.num_groups; ++group) {
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

// Null for none.
inline const float* PriorOrNull(const std::vector<float>& prior) {
  return prior.empty() ? nullptr : prior.data();
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
// Exact for the multiples of 1/64 below 16 that the test draws.
template <>
inline half FromDouble(double value) {
  if (value == 0) return {0};
  int exponent;
  const double mantissa = std::frexp(std::fabs(value), &exponent);
  const int bits = static_cast<int>(mantissa * 2048) - 1024;
  return {static_cast<uint16_t>((value < 0 ? 0x8000 : 0) |
                                ((exponent + 14) << 10) | bits)};
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
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024 + mantissa, exponent - 25);
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

inline void Near(double got, double want, double tolerance,
                 const std::string& what) {
  ++checks;
  if (std::fabs(got - want) <= tolerance * (1 + std::fabs(want))) return;
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

// Prints the count of checks; returns the exit status of the test.
inline int Summarize() {
  std::printf("%" PRId64 " checks, %d failed\n", checks, failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_TEST_SUPPORT_H_
