// Trees and forests in device memory, copied there once each, and batches in
// them.
//
// The ops get a tree's arrays in host memory, where TensorFlow passes them on
// by reference, the same buffers in each call. A device keeps a copy of each
// set of buffers that it has seen, until nobody else refers to the host's. It
// refers to them itself meanwhile: no other tree comes to lie at the same
// address, and nobody writes to them.
//
// Arrays that contradict each other are refused when the copy is made, in
// O(tree) work, as is the copy: the kernels only ever see trees.

#ifndef TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_
#define TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/tree/tree_view.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/gpu/device.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"

namespace tf_hsm::gpu {

struct DeviceTree {
  TreeView view;  // of device memory
  TreeShape shape;
  Levels levels;  // with row_below only
  Tensor arrays;  // where the tree lies
  Tensor places;  // and where they do
  std::vector<Tensor> host_arrays;
};

// Finds or makes the copy of the op's tree. `host` is what Arguments::Read has
// made of it, or InferenceArguments::Read: of the arrays group_offsets,
// row_below and root_groups all others are made, and not read even where the op
// has them.
absl::Status FindDeviceTree(OpKernelContext* context, const TreeView& host,
                            std::shared_ptr<const DeviceTree>* tree);

// Sets parameters and inputs of a batch, from what LossArguments or
// InferenceArguments have read. Refuses sizes that the core does not take.
template <typename T, typename Arguments>
absl::Status SetInputs(OpKernelContext* context, const Arguments& arguments,
                       Batch<T>* batch) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const Parameters& parameters = arguments.parameters;
  const Tensor& inputs = *arguments.inputs;
  TF_RETURN_IF_ERROR(CheckStream(context));
  batch->weights = Data<T>(parameters.weights());
  batch->biases = Data<T>(parameters.biases());
  batch->width = arguments.width;
  if (batch->width < 1 || batch->width > kMost) {
    return InvalidArgument("weights must have a width in [1, ", kMost,
                           "] on a GPU, but have the width ", batch->width);
  }
  batch->inputs = inputs.data();
  ForElementType(inputs.dtype(), [&](auto element) {
    batch->input_type = kElementType<decltype(element)>;
  });
  batch->size = inputs.NumElements() / batch->width;
  if (batch->size > kMost) {
    return InvalidArgument("inputs must be at most ", kMost,
                           " examples on a GPU, but are ", batch->size);
  }
  // TensorFlow's own switch, of matrix products.
  batch->precision = tensorflow::tensor_float_32_execution_enabled()
                         ? Precision::kTensorCores
                         : Precision::kExact;
  return absl::OkStatus();
}

// Sets all of a batch but its labels. `tree` keeps what the batch points at.
template <typename T, typename Arguments>
absl::Status SetBatch(OpKernelContext* context, const Arguments& arguments,
                      Batch<T>* batch,
                      std::shared_ptr<const DeviceTree>* tree) {
  TF_RETURN_IF_ERROR(SetInputs(context, arguments, batch));
  TF_RETURN_IF_ERROR(FindDeviceTree(context, arguments.tree, tree));
  batch->tree = (*tree)->view;
  batch->shape = (*tree)->shape;
  return absl::OkStatus();
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_KERNELS_GPU_DEVICE_TREE_H_
