// The core's view of TensorFlow's intra-op thread pool.

#ifndef TF_HSM_CC_KERNELS_COMMON_PARALLEL_H_
#define TF_HSM_CC_KERNELS_COMMON_PARALLEL_H_

#include <functional>

#include "cc/core/base/parallel.h"
#include "cc/kernels/common/op_kernel.h"

namespace tf_hsm {

// Runs on the context's device's pool and on the calling thread, which takes
// items too: it never waits for a pool that others keep busy. What an item
// throws is thrown again when no item runs any more.
//
// Calls `reserve`, if there is one, on this thread now, and on others before
// their first item: a thread on which it throws takes none. Then a call needs
// no memory: without any, it runs on fewer threads.
Parallel PoolParallel(OpKernelContext* context,
                      const std::function<void()>& reserve = nullptr);

// Fills the tensor's memory with zeros.
void SetZero(const Parallel& parallel, Tensor* tensor);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_PARALLEL_H_
