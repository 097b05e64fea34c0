// The op kernel that returns the version of the library.

#include "cc/kernels/common/register.h"

#ifndef TF_HSM_VERSION
#error "BUILD defines TF_HSM_VERSION, by the version in pyproject.toml"
#endif

namespace tf_hsm {
namespace {

struct VersionOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    Tensor* version;
    TF_RETURN_IF_ERROR(context->allocate_output(0, {}, &version));
    version->scalar<tensorflow::tstring>()() = TF_HSM_VERSION;
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("TfHsmVersion").Device(tensorflow::DEVICE_CPU),
                        OpKernelOf<VersionOp>);

}  // namespace
}  // namespace tf_hsm
