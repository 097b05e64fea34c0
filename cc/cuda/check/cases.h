// The cases that every check of the loss and of predictions runs on, for
// gpu_check.cc: small ones, forests, and those that only a GPU does quickly.

#ifndef TF_HSM_CC_CUDA_CHECK_CASES_H_
#define TF_HSM_CC_CUDA_CHECK_CASES_H_

#include <random>
#include <vector>

#include "cc/cuda/check/check_support.h"

namespace tf_hsm::gpu {

using Rng = std::mt19937;

inline std::vector<CheckCase> SmallCases(Rng* rng) {
  return {
      {"empty batch", FlatTree(9), 0, 5},
      {"one class", FlatTree(1), 3, 4},
      {"flat", FlatTree(203), 37, 44},
      // Three row tiles.
      CheckCase{"flat, few examples", FlatTree(141), 14, 20, kCutRows}.Emulated(
          25 << 10, 0),
      CheckCase{"flat, half items", FlatTree(141), 37, 44}.OnlyFloat().Emulated(
          58 << 10, kHalfItems),
      {"flat, cut by examples", FlatTree(11), 330, 12, kCutExamples},
      {"hot, in pieces", FlatTree(265), 320, 5, kHot | kCutRows | kCutExamples},
      {"hot, slabs", FlatTree(20), 85, 130, kHot},
      // Three slabs with tensor cores, six without.
      {"hot, many slabs", FlatTree(9), 85, 650, kHot},
      CheckCase{"hot heads", TwoLevelTree(300), 200, 36, kHot}
          .WithoutBiases()
          .Classes(40),
      CheckCase{"hot, room for some", FlatTree(70), 200, 19,
                kHot | kTwoParts | kNotHot}
          .Logits(160 * 70 * 4),
      CheckCase{"two_level", TwoLevelTree(300), 35, 20, kNotHot}
          .WithoutBiases(),
      CheckCase{"two_level, slabs", TwoLevelTree(200), 9, 100}.Emulated(
          24 << 10, kSlabs),
      {"binary", BinaryTree(4), 130, 37},
      {"skewed", SkewedTree(25, rng), 21, 16},
      {"pinned", Pinned(BinaryTree(4)), 130, 37, kCutExamples},
      CheckCase{"pinned, skewed", Pinned(SkewedTree(75, rng)), 21, 16}
          .OnlyFloat(),
      CheckCase{"chain", ChainTree(20, 3), 12, 9}.WithoutBiases(),
      {"ragged", RandomTree(6, 45, 0.3, rng), 34, 37},
  };
}

inline std::vector<CheckCase> Forests(Rng* rng) {
  const OwnedTree pinned =
      JoinTrees({Pinned(BinaryTree(3)), Pinned(FlatTree(2)),
                 Pinned(SkewedTree(20, rng)), Pinned(ChainTree(9, 2))},
                rng);
  const OwnedTree hot =
      JoinTrees({FlatTree(150), TwoLevelTree(90), FlatTree(20)}, rng);
  return {
      {"forest", MixedForest(rng), 61, 21},
      CheckCase{"below one root", RandomTree(8, 30, 0.3, rng), 23, 11}
          .WithStarts(),
      CheckCase{"forest of many", WideForest(70, rng), 90, 12}.WithoutBiases(),
      CheckCase{"forest, pinned", pinned, 35, 21}.WithoutBiases(),
      CheckCase{"forest, hot", hot, 330, 9, kHot | kCutRows | kNotHot}
          .OnlyFloat(),
  };
}

// With widths of the usual models: copies of 16, 8 and 4 bytes, and slabs where
// a tile of all columns does not fit. Hosts without a GPU take seconds.
inline std::vector<CheckCase> WideCases() {
  return {
      CheckCase{"wide 300", TwoLevelTree(700), 90, 300}.Classes(233),
      CheckCase{"wide 301", TwoLevelTree(400), 80, 301}.Classes(133),
      CheckCase{"wide 302", TwoLevelTree(400), 80, 302}.Classes(133),
      CheckCase{"wide 520", TwoLevelTree(300), 70, 520}.WithoutBiases().Classes(
          100),
  };
}

inline std::vector<CheckCase> LargeCases(Rng* rng) {
  const OwnedTree forest = JoinTrees({TwoLevelTree(20011), BinaryTree(12),
                                      FlatTree(3001), SkewedTree(5000, rng)},
                                     rng);
  return {
      {"large flat", FlatTree(5003), 517, 300},
      {"large two_level", TwoLevelTree(100003), 801, 300},
      CheckCase{"large two_level hot", TwoLevelTree(100003), 3000, 300, kHot}
          .Classes(200)
          .Logits(16 << 20),
      {"large two_level wide", TwoLevelTree(10007), 300, 1500, kSlabs},
      CheckCase{"large two_level without biases", TwoLevelTree(10007), 300, 511}
          .WithoutBiases(),
      // One example in eight has no path.
      CheckCase{"large room for some", FlatTree(3163), 100000, 2,
                kHot | kTwoParts | kNotHot}
          .OnlyFloat()
          .Logits(int64_t{1} << 30),
      {"large binary", BinaryTree(16), 2000, 300},
      {"large skewed", SkewedTree(20000, rng), 1000, 129},
      {"large pinned", Pinned(SkewedTree(20000, rng)), 1000, 129},
      {"large chain", ChainTree(3000, 2), 300, 40},
      {"large forest", forest, 1500, 257},
      {"large ragged", RandomTree(300, 700, 0.05, rng), 1000, 257},
  };
}

// Trees with groups of all sizes at several depths, whose arrays are broken.
inline std::vector<CheckCase> GarbageCases(Rng* rng) {
  return {
      {"ragged", RandomTree(20, 30, 0.2, rng), 30, 12},
      CheckCase{"binary", BinaryTree(5), 20, 5}.OnlyFloat(),
      CheckCase{"pinned", Pinned(BinaryTree(5)), 20, 5}.OnlyFloat(),
      CheckCase{"two_level", TwoLevelTree(200), 20, 20}
          .WithoutBiases()
          .OnlyFloat(),
      {"hot", TwoLevelTree(130), 90, 5},
      CheckCase{"forest", MixedForest(rng), 30, 7}.OnlyFloat(),
  };
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_CASES_H_
