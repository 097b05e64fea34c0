// Checks the GPU kernels against the scalar reference in float64, without
// TensorFlow:
//
//   benchmarks/gpu/build.sh bin && bin/gpu_check
//
// Every kernel, element type, precision and shape of tree or forest, at ragged
// sizes (on the emulation each shape has one of the two types of 16 bits);
// wrong arrays of trees; stochastic rounding. Outputs and scratch hold NaN
// before, between guards; each run is made twice, and both must have the same
// bits. One line per run, at once; the exit status is not 0 after a failure.
//
//   --small      without the checks that only a GPU does quickly: the test of
//                the emulation (emulate.h) runs the others
//   --list       prints the names of the checks
//   --only=NAME  runs the one of this name

#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/cuda/check/best_classes_check.h"
#include "cc/cuda/check/big_tree_check.h"
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/check/concurrency_check.h"
#include "cc/cuda/check/garbage_check.h"
#include "cc/cuda/check/inference_check.h"
#include "cc/cuda/check/label_tree_check.h"
#include "cc/cuda/check/log_probs_grad_check.h"
#include "cc/cuda/check/loss_check.h"
#include "cc/cuda/check/plan_check.h"
#include "cc/cuda/check/sparse_update_check.h"
#include "cc/cuda/check/top_k_check.h"
#include "cc/cuda/check/update_check.h"

namespace tf_hsm::gpu {
namespace {

using Rng = std::mt19937;

// The cases that every check of the loss and of predictions runs on: small
// ones, forests, and large ones, which only a GPU does quickly.

std::vector<CheckCase> SmallCases(Rng* rng) {
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
      CheckCase{"hot, room for some", FlatTree(70), 190, 19,
                kHot | kTwoParts | kNotHot}
          .Logits(160 * 70 * 4),
      CheckCase{"two_level, room for some", TwoLevelTree(300), 500, 9,
                kHot | kTwoParts | kNotHot | kCutExamples}
          .OnlyFloat()
          .Logits(13 << 10),
      // Two chunks of 128 examples, and one of 44 or 84.
      CheckCase{"in chunks", FlatTree(265), 300, 20, kChunks}.Logits(150 << 10),
      CheckCase{"capped, in chunks", FlatTree(70), 340, 130, kChunks}
          .OnlyFloat()
          .WithoutBiases()
          .Capped(1.5)
          .ZLoss(0.125)
          .Logits(40 << 10),
      CheckCase{"two_level", TwoLevelTree(300), 35, 20, kNotHot}
          .WithoutBiases(),
      CheckCase{"two_level, slabs", TwoLevelTree(200), 9, 100}.Emulated(
          24 << 10, kSlabs),
      // dz is larger than the gradient of the loss: float16 must hold it.
      CheckCase{"z_loss, few", FlatTree(9), 30, 650, kNotHot}.ZLoss(1),
      // In tiles of a group, in a hot one, and in one that is both.
      CheckCase{"capped, slabs", FlatTree(70), 9, 100}
          .OnlyFloat()
          .Capped(0.5)
          .ZLoss(0.125)
          .Emulated(24 << 10, kSlabs),
      CheckCase{"capped", FlatTree(141), 37, 20, kNotHot}.Capped(1.5),
      CheckCase{"capped, hot", FlatTree(265), 150, 20, kHot | kCutRows}
          .WithoutBiases()
          .Capped(1.5)
          .ZLoss(0.125),
      CheckCase{"z_loss", FlatTree(9), 85, 650, kHot}.ZLoss(1),
      CheckCase{"capped, room for some", FlatTree(70), 190, 19,
                kHot | kTwoParts | kNotHot}
          .OnlyFloat()
          .Capped(2)
          .Logits(160 * 70 * 4),
      {"binary", BinaryTree(4), 130, 37},
      {"skewed", SkewedTree(25, rng), 21, 16},
      {"pinned", Pinned(BinaryTree(4)), 130, 37, kCutExamples},
      CheckCase{"pinned, skewed", Pinned(SkewedTree(75, rng)), 21, 16}
          .OnlyFloat(),
      CheckCase{"chain", ChainTree(20, 3), 12, 9}.WithoutBiases(),
      {"ragged", RandomTree(6, 45, 0.3, rng), 34, 37},
  };
}

std::vector<CheckCase> Forests(Rng* rng) {
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
std::vector<CheckCase> WideCases() {
  return {
      CheckCase{"wide 300", TwoLevelTree(700), 90, 300}.Classes(233),
      CheckCase{"wide 301", TwoLevelTree(400), 80, 301}.Classes(133),
      CheckCase{"wide 302", TwoLevelTree(400), 80, 302}.Classes(133),
      CheckCase{"wide 520", TwoLevelTree(300), 70, 520}.WithoutBiases().Classes(
          100),
  };
}

std::vector<CheckCase> LargeCases(Rng* rng) {
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
      CheckCase{"large in chunks", FlatTree(3163), 100000, 2, kChunks}
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
std::vector<CheckCase> GarbageCases(Rng* rng) {
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

template <typename T>
void RunTyped(const CheckCase& c, Precision precision, std::mt19937* rng) {
  LossCase<T> loss(c, precision, rng);
  loss.MakeReference();
  CheckLoss(loss);
  CheckUpdates(loss);
  const InferenceCase<T> inference(c, precision, rng);
  for (bool of_nodes : {true, false}) {
    CheckLogProbsGrad(inference, of_nodes, rng);
  }
  CheckClassLogProbs(inference, rng);
  CheckInference(inference);
  if constexpr (kSumsInFloat<T>) TopKCheck<T>(inference).Run();
  if (c.soft_cap > 0) return;  // not with smoothed labels
  loss.Smooth(std::is_same_v<T, float> && precision == Precision::kExact, rng);
  loss.MakeReference();
  CheckLoss(loss);
  // Labels do not change how gradients are applied.
  CheckUpdate(loss, UpdateRule::kAdagrad, false);
}

// `number` is that of the case.
void RunCase(const CheckCase& c, [[maybe_unused]] size_t number,
             std::mt19937* rng) {
  bool with_bfloat16 = true, with_half = true;
#ifndef __CUDACC__
  emulate::options.shared_bytes = c.shared_bytes;
  with_bfloat16 = number % 2 == 0;
  with_half = !with_bfloat16;
#endif
  for (Precision precision : {Precision::kExact, Precision::kTensorCores}) {
    RunTyped<float>(c, precision, rng);
    if (c.only_float) continue;
    if (with_bfloat16) RunTyped<bfloat16>(c, precision, rng);
    if (with_half) RunTyped<half>(c, precision, rng);
  }
  if (!c.only_float) RunTyped<double>(c, Precision::kExact, rng);
}

// Each has its own random numbers, whichever others run.
struct Check {
  std::string name;
  bool small;
  std::function<void(Rng*)> run;
};

std::vector<Check> AllChecks() {
  std::vector<Check> checks;
  Rng trees(1);
  auto add_cases = [&](const std::vector<CheckCase>& cases, bool small) {
    for (const CheckCase& c : cases) {
      const size_t number = checks.size();
      checks.push_back(
          {c.name, small, [=](Rng* rng) { RunCase(c, number, rng); }});
    }
  };
  auto add = [&](const std::string& name,
                 const std::function<void(Rng*)>& check,
                 bool small = true) { checks.push_back({name, small, check}); };
  add_cases(SmallCases(&trees), true);
  add_cases(Forests(&trees), true);
  for (const CheckCase& c : GarbageCases(&trees)) {
    add("garbage in " + c.name, [=](Rng* rng) {
      GarbageCheck<float>(c, Precision::kExact, rng).Run();
      if (c.only_float) return;
      GarbageCheck<half>(c, Precision::kTensorCores, rng).Run();
    });
  }
  add("rounding", [](Rng*) {
    for (int64_t classes : {5, 8, 64}) {
      for (int64_t width : {516, 517}) {
        CheckRounding(classes, width, Precision::kExact);
        CheckRounding(classes, width, Precision::kTensorCores);
      }
    }
  });
  add("label trees", CheckLabelTrees);
  add("rows of a gradient", CheckSparseUpdates);
  add("one block or many", CheckTwoWays);
  add("room for logits", CheckRoom);
#ifndef __CUDACC__
  add("a sort that fails", CheckFailures);
#endif
  add("large top_k", CheckLargeTopK);
  add("best classes", CheckBestClasses);
  add("launches", CheckLaunches);
  add("at once", [](Rng* rng) { CheckConcurrency(130, 90, 5, rng); });
  add("hashed weights", [](Rng* rng) {
    BigTreeCheck<float>(210, 40, 7, rng).Run();
    BigTreeCheck<bfloat16>(210, 40, 7, rng).Run();
  });
  add_cases(WideCases(), false);
  add_cases(LargeCases(&trees), false);
  add(
      "large at once",
      [](Rng* rng) { CheckConcurrency(100003, 3000, 300, rng); }, false);
  // 2.4e9 weights: 9.6 GB, or half of it.
  add(
      "large more than 2^31 numbers",
      [](Rng* rng) {
        BigTreeCheck<float>(8000000, 200, 300, rng).Run();
        BigTreeCheck<bfloat16>(8000000, 200, 300, rng).Run();
      },
      false);
  return checks;
}

// Returns the number of checks that ran.
int RunChecks(bool lists, bool small, const std::string& only) {
  int runs = 0;
  for (const Check& check : AllChecks()) {
    if (small && !check.small) continue;
    if (!only.empty() && check.name != only) continue;
    ++runs;
    if (lists) {
      std::printf("%s\n", check.name.c_str());
      continue;
    }
    std::seed_seq seed(check.name.begin(), check.name.end());
    Rng rng(seed);
    check.run(&rng);
  }
  return runs;
}

}  // namespace
}  // namespace tf_hsm::gpu

int main(int argc, char** argv) {
  using namespace tf_hsm::gpu;  // NOLINT
  bool lists = false, small = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    lists = lists || argument == "--list";
    small = small || argument == "--small";
    if (argument.rfind("--only=", 0) == 0) {
      only = argument.substr(7);
    } else if (argument != "--list" && argument != "--small") {
      std::fprintf(stderr, "no flag %s\n", argv[i]);
      return EXIT_FAILURE;
    }
  }
  if (RunChecks(lists, small, only) == 0) {
    std::fprintf(stderr, "no check %s\n", only.c_str());
    return EXIT_FAILURE;
  }
  if (lists) return EXIT_SUCCESS;
  std::printf("%d lines, %d failed, %d arrays written out of bounds\n",
              num_lines, num_failed, num_overruns);
#ifndef __CUDACC__
  if (emulate::errors > 0) {
    std::printf("%d errors of the emulation\n", emulate::errors.load());
    return EXIT_FAILURE;
  }
#endif
  return num_failed + num_overruns == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
