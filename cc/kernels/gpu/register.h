// Registers a kernel for a GPU; under TF_HSM_EMULATED, for the CPU under a
// label that the tests ask for.

#ifndef TF_HSM_CC_KERNELS_GPU_REGISTER_H_
#define TF_HSM_CC_KERNELS_GPU_REGISTER_H_

#include "cc/kernels/common/arguments.h"
#include "tensorflow/core/framework/op_kernel.h"

#ifdef TF_HSM_EMULATED
#define TF_HSM_NAME(name) \
  Name(name).Device(tensorflow::DEVICE_CPU).Label("tf_hsm_emulated")
#else
#define TF_HSM_NAME(name) Name(name).Device(tensorflow::DEVICE_GPU)
#endif

// The arrays of a tree stay in host memory: see device_tree.h. So does what
// `host_memory`, a list of .HostMemory(name), says. Handles of variables always
// are there.
#define TF_HSM_REGISTER_ON_DEVICE(name, kernel, T, host_memory)           \
  REGISTER_KERNEL_BUILDER(                                                \
      TF_HSM_NAME(name)                                                   \
          .TypeConstraint<T>("T")                                         \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator") \
          .HostMemory("group_offsets") host_memory,                       \
      kernel<T>)

// Of an op on a batch of labels.
#define TF_HSM_REGISTER_BATCH_OP(name, kernel, T, host_memory) \
  TF_HSM_REGISTER_ON_DEVICE(name, kernel, T,                   \
                            .HostMemory("group_parents")       \
                                .HostMemory("class_rows")      \
                                .HostMemory("row_groups")      \
                                .HostMemory("class_ranks") host_memory)

// Of an op that goes down the tree, on tensors (`name`) and on variables; for
// all element types, or one.
#define TF_HSM_REGISTER_INFERENCE_OPS(name, kernel, host_memory)            \
  TF_HSM_REGISTER_INFERENCE_OP(name, kernel, float, host_memory);           \
  TF_HSM_REGISTER_INFERENCE_OP(name, kernel, double, host_memory);          \
  TF_HSM_REGISTER_INFERENCE_OP(name, kernel, Eigen::bfloat16, host_memory); \
  TF_HSM_REGISTER_INFERENCE_OP(name, kernel, Eigen::half, host_memory)
#define TF_HSM_REGISTER_INFERENCE_OP(name, kernel, T, host_memory) \
  TF_HSM_REGISTER_DESCENT(name, kernel, T, host_memory);           \
  TF_HSM_REGISTER_DESCENT("Resource" name, kernel, T, host_memory)
#define TF_HSM_REGISTER_DESCENT(name, kernel, T, host_memory) \
  TF_HSM_REGISTER_ON_DEVICE(name, kernel, T,                  \
                            .HostMemory("row_below") host_memory)

#endif  // TF_HSM_CC_KERNELS_GPU_REGISTER_H_
