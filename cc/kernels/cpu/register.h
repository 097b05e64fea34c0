// Where the op kernels of this folder run.

#ifndef TF_HSM_CC_KERNELS_CPU_REGISTER_H_
#define TF_HSM_CC_KERNELS_CPU_REGISTER_H_

#include "cc/kernels/common/register.h"

namespace tf_hsm {

const KernelDevice kCpu = {tensorflow::DEVICE_CPU, ""};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_REGISTER_H_
