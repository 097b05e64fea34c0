// Parameters, inputs and a tree as the core takes them on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_CORE_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_CORE_BATCH_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/gpu/device_tree.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"

namespace tf_hsm {
namespace gpu {

inline ElementType ElementTypeOf(tensorflow::DataType type) {
  ElementType result = {};
#define TF_HSM_FIND(T, Tensor, name)                       \
  if (type == tensorflow::DataTypeToEnum<Tensor>::value) { \
    result = kElementType<T>;                              \
  }
  TF_HSM_ELEMENT_TYPES(TF_HSM_FIND)
#undef TF_HSM_FIND
  return result;
}

// Sets all of a batch but its labels, of `inputs` [..., width]. Refuses sizes
// that the core does not take.
template <typename T>
absl::Status SetBatch(const Parameters& parameters,
                      const tensorflow::Tensor& inputs, const DeviceTree& tree,
                      Batch<typename CoreType<T>::type>* batch) {
  using Core = typename CoreType<T>::type;
  constexpr int64_t kMost = int64_t{1} << 30;
  batch->tree = tree.view;
  batch->shape = tree.shape;
  batch->weights = static_cast<const Core*>(parameters.weights().data());
  if (parameters.biases() != nullptr) {
    batch->biases = static_cast<const Core*>(parameters.biases()->data());
  }
  batch->width = parameters.weights().dim_size(1);
  if (batch->width < 1 || batch->width > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights must have a width in [1, ", kMost,
                     "] on a GPU, but have the width ", batch->width));
  }
  batch->inputs = inputs.data();
  batch->input_type = ElementTypeOf(inputs.dtype());
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
