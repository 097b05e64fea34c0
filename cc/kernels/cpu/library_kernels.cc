// The op kernels that tell what a process has loaded.

#include <cstdint>
#include <string>

#include "cc/core/api/example_search.h"
#include "cc/core/api/loss.h"
#include "cc/core/base/isa.h"
#include "cc/core/base/types.h"
#include "cc/kernels/common/register.h"

#ifndef TF_HSM_VERSION
#error "BUILD defines TF_HSM_VERSION, by the version in pyproject.toml"
#endif

namespace tf_hsm {
namespace {

template <typename Value>
absl::Status SetOutput(OpKernelContext* context, int number,
                       const Value& value) {
  Tensor* output;
  TF_RETURN_IF_ERROR(context->allocate_output(number, {}, &output));
  output->scalar<Value>()() = value;
  return absl::OkStatus();
}

struct VersionOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    return SetOutput<tensorflow::tstring>(context, 0, TF_HSM_VERSION);
  }
};

struct CpuIsaOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    std::string error;
    const Isa isa = ActiveIsa(&error);
    TF_RETURN_IF_ERROR(StatusOf(error));
    return SetOutput<tensorflow::tstring>(context, 0, IsaName(isa));
  }
};

struct ConstantsOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    int number = 0;
    for (const int64_t value : {kMaxKeptBytes, kNarrowWidth, kMaxNarrowBytes,
                                kChunkBytes, kPadding, kMaxOpen}) {
      TF_RETURN_IF_ERROR(SetOutput(context, number++, value));
    }
    return absl::OkStatus();
  }
};

const bool registered[] = {RegisterOnCpu<CpuIsaOp>("TfHsmCpuIsa"),
                           RegisterOnCpu<ConstantsOp>("TfHsmConstants"),
                           RegisterOnCpu<VersionOp>("TfHsmVersion")};

}  // namespace
}  // namespace tf_hsm
