#include "cc/kernels/common/arguments.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// So that no product of it with a few thousand rows overflows.
constexpr int64_t kMaxWidth = int64_t{1} << 40;

absl::Status Vector(OpKernelContext* context, const char* name, int64_t size,
                    const std::string& why, const int64_t** data) {
  const Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->dims() != 1 || (size >= 0 && tensor->dim_size(0) != size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have the shape [", size >= 0 ? absl::StrCat(size) : "n",
        "], ", why, ", but has ", tensor->shape().DebugString()));
  }
  *data = static_cast<const int64_t*>(tensor->data());
  return absl::OkStatus();
}

absl::Status CheckWidth(int64_t width) {
  if (width <= kMaxWidth) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weights must have a width of at most ", kMaxWidth,
                   ", but have the width ", width));
}

template <typename Integer>
void Copy(const Tensor& tensor, std::vector<int64_t>* values) {
  const Integer* data = static_cast<const Integer*>(tensor.data());
  values->assign(data, data + tensor.NumElements());
}

}  // namespace

void CopyIntegers(const Tensor& tensor, std::vector<int64_t>* values) {
  if (tensor.dtype() == tensorflow::DT_INT32) {
    Copy<int32_t>(tensor, values);
  } else {
    Copy<int64_t>(tensor, values);
  }
}

absl::Status ReadIndices(const Tensor& tensor, int64_t rows,
                         std::vector<int64_t>* indices) {
  CopyIntegers(tensor, indices);
  for (size_t i = 0; i < indices->size(); ++i) {
    const int64_t row = (*indices)[i];
    if (row >= 0 && row < rows) continue;
    return absl::InvalidArgumentError(OutOfRange("indices", i, row, 0, rows));
  }
  return absl::OkStatus();
}

absl::Status ReadInputs(OpKernelContext* context, int64_t width,
                        const Tensor** inputs) {
  TF_RETURN_IF_ERROR(CheckWidth(width));
  TF_RETURN_IF_ERROR(context->input("inputs", inputs));
  const int rank = (*inputs)->dims();
  if (rank >= 1 && (*inputs)->dim_size(rank - 1) == width) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("inputs must have the shape [..., ", width,
                   "], the width of weights last, but have ",
                   (*inputs)->shape().DebugString()));
}

absl::Status ReadTreeBelow(OpKernelContext* context, int64_t rows,
                           TreeView* tree) {
  const Tensor* array = nullptr;
  TF_RETURN_IF_ERROR(context->input("group_offsets", &array));
  tree->num_rows = rows;
  tree->num_groups = array->NumElements() - 1;
  tree->num_classes = rows - tree->num_groups + 1;
  TF_RETURN_IF_ERROR(Vector(context, "group_offsets", -1,
                            "one more than groups", &tree->group_offsets));
  if (tree->num_groups < 1 || tree->num_classes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group_offsets must have from 2 to ", rows + 1, " values for ", rows,
        " rows of weights (the weights must be made for this tree), but has ",
        array->NumElements()));
  }
  return Vector(context, "row_below", rows,
                "one per row of weights (the weights must be made for this "
                "tree)",
                &tree->row_below);
}

absl::Status ReadTreeAbove(OpKernelContext* context, TreeView* tree) {
  TF_RETURN_IF_ERROR(Vector(context, "group_parents", tree->num_groups,
                            "one per group", &tree->group_parents));
  TF_RETURN_IF_ERROR(Vector(context, "class_rows", tree->num_classes,
                            "one per class", &tree->class_rows));
  return Vector(context, "row_groups", tree->num_rows, "one per row of weights",
                &tree->row_groups);
}

absl::Status Arguments::Read(OpKernelContext* context,
                             const Parameters& parameters) {
  width = parameters.weights().dim_size(1);
  TF_RETURN_IF_ERROR(CheckWidth(width));
  TF_RETURN_IF_ERROR(context->input("labels", &labels));
  batch_shape = labels->shape();
  tensorflow::TensorShape wanted = batch_shape;
  TF_RETURN_IF_ERROR(wanted.AddDimWithStatus(width));
  if (parameters.vectors() != nullptr) {
    TF_RETURN_IF_ERROR(context->input("indices", &indices));
    if (indices->shape() != batch_shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "indices must have the shape of labels, ", batch_shape.DebugString(),
          ", but have ", indices->shape().DebugString()));
    }
  } else {
    TF_RETURN_IF_ERROR(context->input("inputs", &inputs));
    if (inputs->shape() != wanted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "inputs must have the shape ", wanted.DebugString(),
          ", that of labels and then the width of weights, but have ",
          inputs->shape().DebugString()));
    }
  }

  const Tensor* array = nullptr;
  TF_RETURN_IF_ERROR(context->input("group_parents", &array));
  tree.num_groups = array->NumElements();
  TF_RETURN_IF_ERROR(context->input("class_rows", &array));
  tree.num_classes = array->NumElements();
  tree.num_rows = parameters.weights().dim_size(0);
  TF_RETURN_IF_ERROR(Vector(context, "group_parents", -1, "one per group",
                            &tree.group_parents));
  TF_RETURN_IF_ERROR(Vector(context, "group_offsets", tree.num_groups + 1,
                            "one more than group_parents",
                            &tree.group_offsets));
  TF_RETURN_IF_ERROR(
      Vector(context, "class_rows", -1, "one per class", &tree.class_rows));
  TF_RETURN_IF_ERROR(Vector(context, "class_ranks", tree.num_classes,
                            "as class_rows", &tree.class_ranks));
  return Vector(context, "row_groups", tree.num_rows,
                "one per row of weights (the weights must be made for this "
                "tree)",
                &tree.row_groups);
}

absl::Status Arguments::ReadLossGrads(OpKernelContext* context,
                                      const Tensor** loss_grads) const {
  TF_RETURN_IF_ERROR(context->input("loss_grads", loss_grads));
  if ((*loss_grads)->shape() == batch_shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "loss_grads must have the shape of labels, " + batch_shape.DebugString() +
      ", but has " + (*loss_grads)->shape().DebugString());
}

}  // namespace tf_hsm
