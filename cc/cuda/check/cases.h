// The cases that every check of the loss and of predictions runs on, for
// gpu_check.cc: small ones, forests, and those that only a GPU does quickly.

#ifndef TF_HSM_CC_CUDA_CHECK_CASES_H_
#define TF_HSM_CC_CUDA_CHECK_CASES_H_

#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "cc/cuda/check/check_support.h"

namespace tf_hsm {
namespace gpu {

using Rng = std::mt19937;

// `make` leaves the name of the case open.
struct NamedCase {
  const char* name;
  std::function<CheckCase(Rng*)> make;
};

inline CheckCase Case(OwnedTree tree, int64_t size, int64_t width,
                      int needs = 0) {
  CheckCase c = {"", std::move(tree), size, width};
  c.needs = needs;
  return c;
}

inline std::vector<NamedCase> SmallCases() {
  std::vector<NamedCase> cases;
  auto add = [&](const char* name, const auto& make) {
    cases.push_back({name, make});
  };
  add("empty batch", [](Rng*) { return Case(FlatTree(9), 0, 5); });
  add("one class", [](Rng*) { return Case(FlatTree(1), 3, 4); });
  add("flat", [](Rng*) { return Case(FlatTree(203), 37, 44); });
  add("flat, few examples", [](Rng*) {
    CheckCase c = Case(FlatTree(141), 14, 20, kCutRows);
    c.shared_bytes = 25 << 10;  // three row tiles
    return c;
  });
  add("flat, half items", [](Rng*) {
    CheckCase c = Case(FlatTree(141), 37, 44);
    c.only_float = true;
#ifndef __CUDACC__
    c.shared_bytes = 58 << 10;
    c.needs = kHalfItems;
#endif
    return c;
  });
  add("flat, cut by examples",
      [](Rng*) { return Case(FlatTree(11), 330, 12, kCutExamples); });
  add("hot, in pieces", [](Rng*) {
    return Case(FlatTree(265), 320, 5, kHot | kCutRows | kCutExamples);
  });
  add("hot, slabs", [](Rng*) { return Case(FlatTree(20), 85, 130, kHot); });
  // Three slabs with tensor cores, six without.
  add("hot, many slabs", [](Rng*) { return Case(FlatTree(9), 85, 650, kHot); });
  add("hot heads", [](Rng*) {
    return Case(TwoLevelTree(300), 200, 36, kHot).WithoutBiases().Classes(40);
  });
  add("hot, room for some", [](Rng*) {
    return Case(FlatTree(70), 200, 19, kHot | kTwoParts | kNotHot)
        .Logits(160 * 70 * 4);
  });
  add("two_level", [](Rng*) {
    return Case(TwoLevelTree(300), 35, 20, kNotHot).WithoutBiases();
  });
  add("two_level, slabs", [](Rng*) {
    CheckCase c = Case(TwoLevelTree(200), 9, 100);
#ifndef __CUDACC__
    c.shared_bytes = 24 << 10;
    c.needs = kSlabs;
#endif
    return c;
  });
  add("binary", [](Rng*) { return Case(BinaryTree(4), 130, 37); });
  add("skewed", [](Rng* rng) { return Case(SkewedTree(25, rng), 21, 16); });
  add("pinned",
      [](Rng*) { return Case(Pinned(BinaryTree(4)), 130, 37, kCutExamples); });
  add("pinned, skewed", [](Rng* rng) {
    return Case(Pinned(SkewedTree(75, rng)), 21, 16).OnlyFloat();
  });
  add("chain",
      [](Rng*) { return Case(ChainTree(20, 3), 12, 9).WithoutBiases(); });
  add("ragged",
      [](Rng* rng) { return Case(RandomTree(6, 45, 0.3, rng), 34, 37); });
  return cases;
}

inline std::vector<NamedCase> Forests() {
  std::vector<NamedCase> cases;
  auto add = [&](const char* name, const auto& make) {
    cases.push_back({name, make});
  };
  add("forest", [](Rng* rng) { return Case(MixedForest(rng), 61, 21); });
  add("below one root", [](Rng* rng) {
    return Case(RandomTree(8, 30, 0.3, rng), 23, 11).WithStarts();
  });
  add("forest of many", [](Rng* rng) {
    return Case(WideForest(70, rng), 90, 12).WithoutBiases();
  });
  add("forest, pinned", [](Rng* rng) {
    return Case(
               JoinTrees({Pinned(BinaryTree(3)), Pinned(FlatTree(2)),
                          Pinned(SkewedTree(20, rng)), Pinned(ChainTree(9, 2))},
                         rng),
               35, 21)
        .WithoutBiases();
  });
  add("forest, hot", [](Rng* rng) {
    return Case(JoinTrees({FlatTree(150), TwoLevelTree(90), FlatTree(20)}, rng),
                330, 9, kHot | kCutRows | kNotHot)
        .OnlyFloat();
  });
  return cases;
}

// With widths of the usual models: copies of 16, 8 and 4 bytes, and slabs where
// a tile of all columns does not fit. Hosts without a GPU take seconds.
inline std::vector<NamedCase> WideCases() {
  std::vector<NamedCase> cases;
  auto add = [&](const char* name, int64_t classes, int64_t size, int64_t width,
                 bool biases) {
    cases.push_back({name, [=](Rng*) {
                       CheckCase c = Case(TwoLevelTree(classes), size, width);
                       c.biases = biases;
                       return c.Classes(classes / 3);
                     }});
  };
  add("wide 300", 700, 90, 300, true);
  add("wide 301", 400, 80, 301, true);
  add("wide 302", 400, 80, 302, true);
  add("wide 520", 300, 70, 520, false);
  return cases;
}

inline std::vector<NamedCase> LargeCases() {
  std::vector<NamedCase> cases;
  auto add = [&](const char* name, const auto& make) {
    cases.push_back({name, make});
  };
  add("large flat", [](Rng*) { return Case(FlatTree(5003), 517, 300); });
  add("large two_level",
      [](Rng*) { return Case(TwoLevelTree(100003), 801, 300); });
  add("large two_level hot", [](Rng*) {
    return Case(TwoLevelTree(100003), 3000, 300, kHot)
        .Classes(200)
        .Logits(16 << 20);
  });
  add("large two_level wide",
      [](Rng*) { return Case(TwoLevelTree(10007), 300, 1500, kSlabs); });
  add("large two_level without biases",
      [](Rng*) { return Case(TwoLevelTree(10007), 300, 511).WithoutBiases(); });
  add("large room for some", [](Rng*) {
    // One example in eight has no path.
    CheckCase c = Case(FlatTree(3163), 100000, 2, kHot | kTwoParts | kNotHot);
    c.logits = int64_t{1} << 30;
    c.only_float = true;
    return c;
  });
  add("large binary", [](Rng*) { return Case(BinaryTree(16), 2000, 300); });
  add("large skewed",
      [](Rng* rng) { return Case(SkewedTree(20000, rng), 1000, 129); });
  add("large pinned",
      [](Rng* rng) { return Case(Pinned(SkewedTree(20000, rng)), 1000, 129); });
  add("large chain", [](Rng*) { return Case(ChainTree(3000, 2), 300, 40); });
  add("large forest", [](Rng* rng) {
    return Case(JoinTrees({TwoLevelTree(20011), BinaryTree(12), FlatTree(3001),
                           SkewedTree(5000, rng)},
                          rng),
                1500, 257);
  });
  add("large ragged", [](Rng* rng) {
    return Case(RandomTree(300, 700, 0.05, rng), 1000, 257);
  });
  return cases;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_CASES_H_
