// Functions that CPUs and GPUs share.

#ifndef TF_HSM_CC_CORE_BASE_HOST_DEVICE_H_
#define TF_HSM_CC_CORE_BASE_HOST_DEVICE_H_

// Before a function that both can call. It is always inlined: where it is
// compiled once per ISA, no two of these can be taken for each other.
#ifdef __CUDACC__
#define TF_HSM_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TF_HSM_HOST_DEVICE inline __attribute__((always_inline))
#endif

#endif  // TF_HSM_CC_CORE_BASE_HOST_DEVICE_H_
