// What every op kernel is made of, and the names of TensorFlow that all use.

#ifndef TF_HSM_CC_KERNELS_COMMON_OP_KERNEL_H_
#define TF_HSM_CC_KERNELS_COMMON_OP_KERNEL_H_

#include "absl/status/status.h"
#include "cc/kernels/common/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The base of an op kernel's attributes, for one without any.
struct OpAttributes {
  // Whether there is an op kernel for tensors too (register.h).
  static constexpr bool kTakesTensors = true;

  absl::Status Read(OpKernelConstruction*) { return absl::OkStatus(); }
};

// TensorFlow's view of an op kernel: OpAttributes, or what derives from it, and
// `absl::Status Run(OpKernelContext*) const`.
template <typename Kernel>
class OpKernelOf : public tensorflow::OpKernel {
 public:
  explicit OpKernelOf(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, kernel_.Read(context));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, WithMemory([&] { return kernel_.Run(context); }));
  }

 private:
  Kernel kernel_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_OP_KERNEL_H_
