// What draws refuse.

#ifndef TF_HSM_CC_CUDA_PREDICT_CHECK_SAMPLING_H_
#define TF_HSM_CC_CUDA_PREDICT_CHECK_SAMPLING_H_

#include <string>

#include "cc/cuda/api/inference.h"

namespace tf_hsm::gpu {

// As in check_arguments.h.
inline std::string CheckSampling(const SampleArguments& arguments) {
  if (arguments.num_samples >= 0 && arguments.temperature > 0) return "";
  return "num_samples is " + std::to_string(arguments.num_samples) +
         " and temperature is " + std::to_string(arguments.temperature) +
         ", but must be at least 0 and above 0";
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_CHECK_SAMPLING_H_
