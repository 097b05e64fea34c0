// The core's view of TensorFlow's intra-op thread pool.

#ifndef TF_HSM_CC_KERNELS_CPU_PARALLEL_H_
#define TF_HSM_CC_KERNELS_CPU_PARALLEL_H_

#include "cc/core/base/parallel.h"
#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {

// Runs on the context's device's pool and on the calling thread, which takes
// items too: it never waits for a pool that others keep busy.
Parallel PoolParallel(OpKernelContext* context);

// Fills the tensor's memory with zeros.
void SetZero(const Parallel& parallel, Tensor* tensor);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_PARALLEL_H_
