// Checks the GPU kernels against the scalar reference in float64, without
// TensorFlow:
//
//   nvcc -std=c++17 -O3 -arch=native -I. -x cu cc/cuda/check/gpu_check.cc
//       $(find cc/cuda -name '*.cu') -o gpu_check && ./gpu_check
//
// Every kernel, element type, precision and shape of tree, at ragged sizes;
// wrong arrays of trees; stochastic rounding. Outputs and scratch hold NaN
// before, between guards; each run is made twice, and both must have the same
// bits. One line per case; the exit status is not 0 after a failure. `--small`
// leaves out the cases that only a GPU does quickly: the test of the emulation
// (emulate.h) runs the others.

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/check/best_classes_check.h"
#include "cc/cuda/check/check_support.h"
#include "cc/cuda/check/failure_check.h"
#include "cc/cuda/check/garbage_check.h"
#include "cc/cuda/check/inference_check.h"
#include "cc/cuda/check/log_probs_grad_check.h"
#include "cc/cuda/check/loss_check.h"
#include "cc/cuda/check/rounding_check.h"
#include "cc/cuda/check/saved_state_check.h"
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
  LogProbsGradCheck<T>(c, loss, rng).Run();
  BestClassesCheck<T>(loss, rng).Run();
  SavedStateCheck<T>(loss, rng).Run();
  InferenceCheck<T>(c, precision, rng).Run();
}

void RunCase(const CheckCase& c, std::mt19937* rng) {
#ifndef __CUDACC__
  emulate::options.shared_bytes = c.shared_bytes;
#endif
  for (Precision precision : {Precision::kExact, Precision::kTensorCores}) {
    RunTyped<float>(c, precision, rng);
    RunTyped<bfloat16>(c, precision, rng);
    RunTyped<half>(c, precision, rng);
  }
  RunTyped<double>(c, Precision::kExact, rng);
}

std::vector<CheckCase> SmallCases(std::mt19937* rng) {
  std::vector<CheckCase> cases;
  cases.push_back({"empty batch", FlatTree(9), 0, 5});
  cases.push_back({"one class", FlatTree(1), 3, 4});
  cases.push_back({"flat", FlatTree(203), 37, 44});
  cases.push_back({"flat, cut by examples", FlatTree(11), 330, 5});
  cases.push_back({"hot, in pieces", FlatTree(265), 320, 5});
  cases.push_back({"hot, slabs", FlatTree(20), 85, 130});
  cases.push_back({"hot heads", TwoLevelTree(300), 200, 37, false, 40});
  cases.push_back({"two_level", TwoLevelTree(300), 35, 20, false});
  cases.push_back({"two_level, slabs", TwoLevelTree(200), 9, 100});
  cases.back().shared_bytes = 24 << 10;
  cases.push_back({"binary", BinaryTree(4), 130, 37});
  cases.push_back({"skewed", SkewedTree(25, rng), 21, 16});
  cases.push_back({"chain", ChainTree(20, 3), 12, 9, false});
  cases.push_back({"ragged", RandomTree(6, 45, 0.3, rng), 34, 37});
  return cases;
}

std::vector<CheckCase> LargeCases(std::mt19937* rng) {
  std::vector<CheckCase> cases;
  cases.push_back({"flat", FlatTree(5003), 517, 300});
  cases.push_back({"two_level", TwoLevelTree(100003), 801, 300});
  cases.push_back(
      {"two_level hot", TwoLevelTree(100003), 3000, 300, true, 200});
  cases.push_back({"two_level wide", TwoLevelTree(10007), 300, 1500});
  cases.push_back({"two_level", TwoLevelTree(10007), 300, 511, false});
  cases.push_back({"binary", BinaryTree(16), 2000, 300});
  cases.push_back({"skewed", SkewedTree(20000, rng), 1000, 129});
  cases.push_back({"chain", ChainTree(3000, 2), 300, 40});
  cases.push_back({"ragged", RandomTree(300, 700, 0.05, rng), 1000, 257});
  return cases;
}

// Trees with groups of all sizes at several depths.
void CheckGarbage(std::mt19937* rng) {
  const CheckCase cases[] = {{"ragged", RandomTree(20, 30, 0.2, rng), 30, 12},
                             {"binary", BinaryTree(5), 20, 5},
                             {"two_level", TwoLevelTree(200), 20, 20, false},
                             {"hot", TwoLevelTree(130), 90, 5}};
  for (const CheckCase& c : cases) {
    GarbageCheck<float>(c, Precision::kExact, rng).Run();
  }
  for (const CheckCase& c : {cases[0], cases[3]}) {
    GarbageCheck<half>(c, Precision::kTensorCores, rng).Run();
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

int main(int argc, char** argv) {
  using namespace tf_hsm::gpu;  // NOLINT
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  std::mt19937 rng(1);
  for (const CheckCase& c : SmallCases(&rng)) RunCase(c, &rng);
  CheckGarbage(&rng);
  for (int64_t classes : {5, 64}) {
    CheckRounding(classes, Precision::kExact);
    CheckRounding(classes, Precision::kTensorCores);
  }
#ifndef __CUDACC__
  CheckFailures(&rng);
#endif
  if (!small) {
    for (const CheckCase& c : LargeCases(&rng)) RunCase(c, &rng);
  }
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
