// A process may have several copies of the op library: each SavedModel has one.

#ifndef TF_HSM_CC_KERNELS_COMMON_FIRST_COPY_H_
#define TF_HSM_CC_KERNELS_COMMON_FIRST_COPY_H_

namespace tf_hsm {

// Whether this copy is the first one in the process, which registers kernels
// for all. TensorFlow takes the ops of the others for those that it has, but
// could not choose between two kernels of an op.
bool IsFirstCopy();

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_FIRST_COPY_H_
