// Registers a kernel for a GPU; under TF_HSM_EMULATED, for the CPU under a
// label that the tests ask for.

#ifndef TF_HSM_CC_KERNELS_GPU_REGISTER_H_
#define TF_HSM_CC_KERNELS_GPU_REGISTER_H_

#include "cc/kernels/arguments.h"
#include "tensorflow/core/framework/op_kernel.h"

#ifdef TF_HSM_EMULATED
#define TF_HSM_NAME(name) \
  Name(name).Device(tensorflow::DEVICE_CPU).Label("tf_hsm_emulated")
#else
#define TF_HSM_NAME(name) Name(name).Device(tensorflow::DEVICE_GPU)
#endif

// The arrays of a tree stay in host memory: see device_tree.h. Handles of
// variables always are there.
#define TF_HSM_REGISTER_BATCH_OP(name, kernel, T, host_memory)            \
  REGISTER_KERNEL_BUILDER(                                                \
      TF_HSM_NAME(name)                                                   \
          .TypeConstraint<T>("T")                                         \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator") \
          .HostMemory("group_offsets")                                    \
          .HostMemory("group_parents")                                    \
          .HostMemory("class_rows")                                       \
          .HostMemory("row_groups")                                       \
          .HostMemory("class_ranks") host_memory,                         \
      kernel<T>)

#endif  // TF_HSM_CC_KERNELS_GPU_REGISTER_H_
