// Checks the GPU kernels against the scalar reference in float64, without
// TensorFlow:
//
//   nvcc -std=c++17 -O3 -arch=native -I. -x cu cc/cuda/check/gpu_check.cc
//       $(find cc/cuda -name '*.cu') -o gpu_check && ./gpu_check
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
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/cuda/check/best_classes_check.h"
#include "cc/cuda/check/big_tree_check.h"
#include "cc/cuda/check/cases.h"
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/check/concurrency_check.h"
#include "cc/cuda/check/garbage_check.h"
#include "cc/cuda/check/inference_check.h"
#include "cc/cuda/check/log_probs_grad_check.h"
#include "cc/cuda/check/loss_check.h"
#include "cc/cuda/check/plan_check.h"
#include "cc/cuda/check/top_k_check.h"
#include "cc/cuda/check/update_check.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename T>
void RunTyped(const CheckCase& c, Precision precision, std::mt19937* rng) {
  LossCase<T> loss(c, precision, rng);
  loss.MakeReference();
  LossCheck<T>(loss).Run();
  UpdateCheck<T>(loss).Run();
  const InferenceCase<T> inference(c, precision, rng);
  LogProbsGradCheck<T>(inference, rng).Run();
  BestClassesCheck<T>(inference, rng).Run();
  InferenceCheck<T>(inference).Run();
  if constexpr (kSumsInFloat<T>) TopKCheck<T>(inference).Run();
  loss.Smooth(std::is_same_v<T, float> && precision == Precision::kExact, rng);
  loss.MakeReference();
  LossCheck<T>(loss).Run();
  UpdateCheck<T>(loss).RunOneRule();
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

class Checks {
 public:
  void Add(const std::string& name, bool small,
           const std::function<void(Rng*)>& run) {
    all.push_back({name, small, run});
  }
  void AddCases(const std::vector<NamedCase>& cases, bool small) {
    for (const NamedCase& named : cases) {
      const size_t number = all.size();
      Add(named.name, small, [=](Rng* rng) {
        CheckCase c = named.make(rng);
        c.name = named.name;
        RunCase(c, number, rng);
      });
    }
  }

  std::vector<Check> all;
};

// Trees with groups of all sizes at several depths.
void AddGarbage(Checks* checks) {
  auto add = [=](const char* name, const auto& make, bool also_half) {
    checks->Add(std::string("garbage in ") + name, true, [=](Rng* rng) {
      CheckCase c = make(rng);
      c.name = name;
      GarbageCheck<float>(c, Precision::kExact, rng).Run();
      if (!also_half) return;
      GarbageCheck<half>(c, Precision::kTensorCores, rng).Run();
    });
  };
  add(
      "ragged",
      [](Rng* rng) { return Case(RandomTree(20, 30, 0.2, rng), 30, 12); },
      true);
  add("binary", [](Rng*) { return Case(BinaryTree(5), 20, 5); }, false);
  add("pinned", [](Rng*) { return Case(Pinned(BinaryTree(5)), 20, 5); }, false);
  add(
      "two_level",
      [](Rng*) { return Case(TwoLevelTree(200), 20, 20).WithoutBiases(); },
      false);
  add("hot", [](Rng*) { return Case(TwoLevelTree(130), 90, 5); }, true);
  add("forest", [](Rng* rng) { return Case(MixedForest(rng), 30, 7); }, false);
}

Checks AllChecks() {
  Checks checks;
  checks.AddCases(SmallCases(), true);
  checks.AddCases(Forests(), true);
  AddGarbage(&checks);
  checks.Add("rounding", true, [](Rng*) {
    for (int64_t classes : {5, 8, 64}) {
      for (int64_t width : {516, 517}) {
        CheckRounding(classes, width, Precision::kExact);
        CheckRounding(classes, width, Precision::kTensorCores);
      }
    }
  });
  checks.Add("one block or many", true, CheckTwoWays);
  checks.Add("room for logits", true, CheckRoom);
#ifndef __CUDACC__
  checks.Add("a sort that fails", true, CheckFailures);
#endif
  checks.Add("large top_k", true, CheckLargeTopK);
  checks.Add("launches", true, CheckLaunches);
  checks.Add("at once", true,
             [](Rng* rng) { CheckConcurrency(130, 90, 5, rng); });
  checks.Add("hashed weights", true, [](Rng* rng) {
    BigTreeCheck<float>(210, 40, 7, rng).Run();
    BigTreeCheck<bfloat16>(210, 40, 7, rng).Run();
  });
  checks.AddCases(WideCases(), false);
  checks.AddCases(LargeCases(), false);
  checks.Add("large at once", false,
             [](Rng* rng) { CheckConcurrency(100003, 3000, 300, rng); });
  // 2.4e9 weights: 9.6 GB, or half of it.
  checks.Add("large more than 2^31 numbers", false, [](Rng* rng) {
    BigTreeCheck<float>(8000000, 200, 300, rng).Run();
    BigTreeCheck<bfloat16>(8000000, 200, 300, rng).Run();
  });
  return checks;
}

// Returns the number of checks that ran.
int RunChecks(bool lists, bool small, const std::string& only) {
  int runs = 0;
  for (const Check& check : AllChecks().all) {
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
}  // namespace gpu
}  // namespace tf_hsm

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
