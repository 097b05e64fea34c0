// What every op kernel is made of, and the names of TensorFlow that all use.

#ifndef TF_HSM_CC_KERNELS_COMMON_OP_KERNEL_H_
#define TF_HSM_CC_KERNELS_COMMON_OP_KERNEL_H_

#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The errors of an argument that is wrong, and of one that this device does not
// take: `pieces` are the parts of a sentence.
template <typename... Pieces>
absl::Status InvalidArgument(const Pieces&... pieces) {
  return absl::InvalidArgumentError(absl::StrCat(pieces...));
}
template <typename... Pieces>
absl::Status Unimplemented(const Pieces&... pieces) {
  return absl::UnimplementedError(absl::StrCat(pieces...));
}

// What a function of the core has returned: nothing, or an error's text.
inline absl::Status StatusOf(const std::string& error) {
  if (error.empty()) return absl::OkStatus();
  if (absl::StartsWith(error, "CUDA: ")) return absl::InternalError(error);
  return absl::InvalidArgumentError(error);
}

// Returns what `call` does. No memory is the only reason why it may throw.
template <typename Call>
absl::Status WithMemory(const Call& call) {
  constexpr char kNoMemory[] =
      "no memory for the scratch of this op, which has changed nothing; fewer "
      "examples need less";
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(kNoMemory);
  } catch (const std::length_error&) {
    return absl::ResourceExhaustedError(kNoMemory);
  }
}

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
