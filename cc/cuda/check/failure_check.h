// Checks that a sort or a scan that fails is told, and that nothing runs on
// what it did not write.

#ifndef TF_HSM_CC_CUDA_CHECK_FAILURE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_FAILURE_CHECK_H_

#include <cmath>
#include <random>
#include <string>

#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

#ifndef __CUDACC__  // a GPU has none that fails when it is asked to

inline void CheckFailures(std::mt19937* rng) {
  // More examples than a plan of one block takes.
  const CheckCase c = {"a sort that fails", FlatTree(5), 2600, 2};
  const LossCase<float> loss(c, Precision::kExact, rng);
  const DeviceCase<float> device(loss);
  const DeviceMemory blocks(device.batch, c.logits);
  int failures = 0, told = 0, wrong = 0;
  for (int call = 0;; ++call) {
    const DeviceOutputs<float> out(device.batch, 0);
    emulate::options.failing_call = call;
    const std::string error =
        out.RunForward(device.batch, blocks.memory, CheckStream());
    const bool failed = emulate::options.failing_call < 0;
    emulate::options.failing_call = -1;
    if (!failed) {
      wrong += !error.empty();
      break;
    }
    ++failures;
    told += !error.empty();
    for (float value : out.dx.Download()) wrong += !std::isnan(value);
  }
  // Two sorts and three scans.
  Line(c.name, failures == 5 && told == failures && wrong == 0,
       std::to_string(told) + " of " + std::to_string(failures) + " told, " +
           WrongText(wrong));
}

#endif

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_FAILURE_CHECK_H_
