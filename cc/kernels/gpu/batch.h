// What every op on a batch of labels begins with on a GPU.

#ifndef TF_HSM_CC_KERNELS_GPU_BATCH_H_
#define TF_HSM_CC_KERNELS_GPU_BATCH_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/cuda/api/gpu.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/gpu/core_batch.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/device_tree.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {
namespace gpu {

// As many bytes of logits stay for the backward.
constexpr int64_t kMaxLogitsBytes = int64_t{1} << 30;

// Arguments, the tree in device memory, and memory to work in.
template <typename T>
class BatchArguments {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  // `parameters` are locked already.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const Parameters& parameters,
                       const std::vector<int64_t>& ignored) {
    TF_RETURN_IF_ERROR(arguments.Read(context, parameters));
    TF_RETURN_IF_ERROR(FindDeviceTree(context, arguments.tree, &tree_));
    TF_RETURN_IF_ERROR(
        SetBatch<T>(parameters, *arguments.inputs, *tree_, &batch));
    batch.labels = arguments.labels->data();
    batch.labels_are_int64 = arguments.labels->dtype() == tensorflow::DT_INT64;
    if (ignored.size() > static_cast<size_t>(kMaxIgnored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("ignore_classes must be at most ", kMaxIgnored,
                       " on a GPU, but are ", ignored.size()));
    }
    batch.num_ignored = static_cast<int>(ignored.size());
    std::copy(ignored.begin(), ignored.end(), batch.ignored);
    memory.logits_bytes = kMaxLogitsBytes;
    sizes_ = SizesOf(batch, memory.logits_bytes);
    return AllocateBytes(context, sizes_.scratch, &scratch_, &memory.scratch);
  }

  // What the forward leaves for the backward is a tensor of this shape.
  tensorflow::TensorShape StateShape() const {
    return tensorflow::TensorShape(
        {(sizes_.state + static_cast<int64_t>(sizeof(A)) - 1) /
         static_cast<int64_t>(sizeof(A))});
  }

  // A state that nobody else sees.
  absl::Status AllocateState(tensorflow::OpKernelContext* context) {
    return AllocateBytes(context, sizes_.state, &state_, &memory.state);
  }

  Arguments arguments;
  Batch<Core> batch;
  Memory memory;

 private:
  std::shared_ptr<const DeviceTree> tree_;
  MemorySizes sizes_;
  tensorflow::Tensor scratch_, state_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_GPU_BATCH_H_
