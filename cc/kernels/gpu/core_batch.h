// Parameters, inputs and a tree as the core takes them on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_CORE_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_CORE_BATCH_H_

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"

namespace tf_hsm {
namespace gpu {

// Sets all of a batch but its labels, from what LossArguments or
// InferenceArguments have read. Refuses sizes that the core does not take.
// `tree` keeps what the batch points at.
template <typename T, typename Arguments>
absl::Status SetBatch(OpKernelContext* context, const Arguments& arguments,
                      Batch<T>* batch,
                      std::shared_ptr<const DeviceTree>* tree) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const Parameters& parameters = arguments.parameters;
  const Tensor& inputs = *arguments.inputs;
  TF_RETURN_IF_ERROR(CheckStream(context));
  TF_RETURN_IF_ERROR(FindDeviceTree(context, arguments.tree, tree));
  batch->tree = (*tree)->view;
  batch->shape = (*tree)->shape;
  batch->weights = Data<T>(parameters.weights());
  if (parameters.biases() != nullptr) {
    batch->biases = Data<T>(*parameters.biases());
  }
  batch->width = arguments.width;
  if (batch->width < 1 || batch->width > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights must have a width in [1, ", kMost,
                     "] on a GPU, but have the width ", batch->width));
  }
  batch->inputs = inputs.data();
  ForElementType(inputs.dtype(), [&](auto element) {
    batch->input_type = kElementType<decltype(element)>;
  });
  batch->size = inputs.NumElements() / batch->width;
  if (batch->size > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs must be at most ", kMost,
                     " examples on a GPU, but are ", batch->size));
  }
  // TensorFlow's own switch, of matrix products.
  batch->precision = tensorflow::tensor_float_32_execution_enabled()
                         ? Precision::kTensorCores
                         : Precision::kExact;
  return absl::OkStatus();
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_CORE_BATCH_H_
