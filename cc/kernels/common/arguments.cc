#include "cc/kernels/common/arguments.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "cc/core/plan/plan.h"
#include "cc/core/tree/tree_walk.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/variable_locks.h"

namespace tf_hsm {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 40;

template <typename Integer>
void Copy(const Tensor& tensor, std::vector<int64_t>* values) {
  const Integer* data = Data<Integer>(tensor);
  values->assign(data, data + tensor.NumElements());
}

// Checks the roots' groups, of a known number of groups.
absl::Status CheckRoots(const TreeView& tree) {
  if (tree.root_groups == nullptr) return absl::OkStatus();
  if (tree.num_roots < 1) {
    return InvalidArgument("root_groups must have at least 1 value, but has 0");
  }
  if (tree.root_groups[0] != 0) {
    return InvalidArgument(
        OutOfRange("root_groups", 0, tree.root_groups[0], 0, 1));
  }
  for (int64_t root = 1; root < tree.num_roots; ++root) {
    const int64_t group = tree.root_groups[root];
    const int64_t least = tree.root_groups[root - 1] + 1;
    if (group >= least && group < tree.num_groups) continue;
    return InvalidArgument(
        OutOfRange("root_groups", root, group, least, tree.num_groups));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShape(const std::string& name, const Tensor& tensor,
                        const TensorShape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return InvalidArgument(name, " must have the shape ", shape.DebugString(),
                         ", but has ", tensor.shape().DebugString());
}

absl::Status CheckWidth(const char* name, int64_t width) {
  if (width <= kMaxWidth) return absl::OkStatus();
  return InvalidArgument(name, " must have a width of at most ", kMaxWidth,
                         ", but have the width ", width);
}

absl::Status ReadVector(OpKernelContext* context, const char* name,
                        int64_t size, const std::string& why,
                        const int64_t** data) {
  const Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->dims() != 1 || (size >= 0 && tensor->dim_size(0) != size)) {
    return InvalidArgument(name, " must have the shape [",
                           size >= 0 ? absl::StrCat(size) : "n", "], ", why,
                           ", but has ", tensor->shape().DebugString());
  }
  *data = Data<int64_t>(*tensor);
  return absl::OkStatus();
}

absl::Status FindInput(OpKernelContext* context, const char* name, int* input) {
  int first, past;
  TF_RETURN_IF_ERROR(context->op_kernel().InputRange(name, &first, &past));
  *input = past == first ? -1 : first;
  if (past - first <= 1) return absl::OkStatus();
  return InvalidArgument(name, " must be at most one, but are ", past - first);
}

absl::Status FindOptional(OpKernelContext* context, const char* name,
                          const Tensor** tensor) {
  int input;
  TF_RETURN_IF_ERROR(FindInput(context, name, &input));
  *tensor = input < 0 ? nullptr : &context->input(input);
  return absl::OkStatus();
}

absl::Status ReadOptional(OpKernelContext* context, const char* name,
                          DataType dtype, const TensorShape& shape,
                          const Tensor** tensor) {
  TF_RETURN_IF_ERROR(FindOptional(context, name, tensor));
  if (*tensor == nullptr) return absl::OkStatus();
  TF_RETURN_IF_ERROR(CheckType(name, **tensor, dtype));
  return CheckShape(name, **tensor, shape);
}

absl::Status TreeAttributes::Read(OpKernelConstruction* context) {
  TF_RETURN_IF_ERROR(context->GetAttr("pinned", &pinned));
  TF_RETURN_IF_ERROR(context->GetAttr("logit_soft_cap", &logit_soft_cap));
  return CheckOption("logit_soft_cap", logit_soft_cap);
}

absl::Status TreeAttributes::CheckSoftCap(const TreeView& tree) const {
  return logit_soft_cap == 0 ? absl::OkStatus()
                             : CheckIsFlat("logit_soft_cap", tree);
}

absl::Status CheckIsFlat(const char* name, const TreeView& tree) {
  if (tree.num_groups == 1 && tree.num_rows > kMaxSmallFanout && !tree.pinned) {
    return absl::OkStatus();
  }
  return InvalidArgument(name, " is for a flat tree of at least ",
                         kMaxSmallFanout + 1, " classes, but this tree has ",
                         tree.num_rows, " rows in ", tree.num_groups,
                         tree.num_groups == 1 ? " group" : " groups");
}

absl::Status CheckOption(const char* name, float value) {
  if (!(value >= 0 && std::isfinite(value))) {
    return InvalidArgument(name, " must be finite and at least 0, but is ",
                           value);
  }
  return absl::OkStatus();
}

absl::Status ReadTreeBelow(OpKernelContext* context, int64_t rows,
                           TreeView* tree) {
  const Tensor *offsets, *roots;
  TF_RETURN_IF_ERROR(context->input("group_offsets", &offsets));
  TF_RETURN_IF_ERROR(FindOptional(context, "root_groups", &roots));
  TF_RETURN_IF_ERROR(
      tree->pinned
          ? ReadVector(context, "group_offsets", rows + 1,
                       "one more than rows of weights of a pinned tree (the "
                       "weights must be made for this tree)",
                       &tree->group_offsets)
          : ReadVector(context, "group_offsets", -1, "one more than groups",
                       &tree->group_offsets));
  if (tree->pinned) rows *= 2;  // the tree's
  tree->num_rows = rows;
  tree->num_groups = offsets->NumElements() - 1;
  tree->num_roots = roots == nullptr ? 1 : roots->NumElements();
  tree->num_classes = rows - tree->num_groups + tree->num_roots;
  if (roots != nullptr) {
    TF_RETURN_IF_ERROR(
        CheckShape("root_groups", *roots, TensorShape({tree->num_roots})));
    tree->root_groups = Data<int64_t>(*roots);
  }
  if (tree->num_groups < 1 || tree->num_groups > rows) {
    return InvalidArgument(
        "group_offsets must have from 2 to ", rows + 1, " values for ", rows,
        " rows of weights (the weights must be made for this tree), but has ",
        offsets->NumElements());
  }
  TF_RETURN_IF_ERROR(CheckRoots(*tree));
  return ReadVector(context, "row_below", rows,
                    tree->pinned ? "two per row of weights of a pinned tree"
                                 : "one per row of weights (the weights must "
                                   "be made for this tree)",
                    &tree->row_below);
}

absl::Status ReadTreeAbove(OpKernelContext* context, TreeView* tree) {
  TF_RETURN_IF_ERROR(ReadVector(context, "group_parents", tree->num_groups,
                                "one per group", &tree->group_parents));
  const Tensor* class_rows = nullptr;
  TF_RETURN_IF_ERROR(context->input("class_rows", &class_rows));
  if (class_rows->NumElements() == tree->num_rows) {
    tree->num_classes = tree->num_rows;
  }
  TF_RETURN_IF_ERROR(ReadVector(context, "class_rows", tree->num_classes,
                                "one per class", &tree->class_rows));
  return ReadVector(context, "row_groups", tree->num_rows,
                    tree->pinned ? "two per row of weights of a pinned tree"
                                 : "one per row of weights",
                    &tree->row_groups);
}

absl::Status CountRoots(TreeView* tree) {
  tree->num_roots = tree->num_classes + tree->num_groups - tree->num_rows;
  if (tree->num_roots >= 1 && tree->num_roots <= tree->num_groups) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "class_rows must have from ", tree->num_rows - tree->num_groups + 1,
      " to ", tree->num_rows, " values for ", tree->num_groups, " groups of ",
      tree->num_rows, " rows of weights, but has ", tree->num_classes);
}

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
    return InvalidArgument(OutOfRange("indices", i, row, 0, rows));
  }
  return absl::OkStatus();
}

absl::Status ReadSplits(const Tensor& tensor, int64_t count,
                        std::vector<int64_t>* splits) {
  CopyIntegers(tensor, splits);
  const int64_t last = splits->size() - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t least = i == 0 ? 0 : (*splits)[i - 1];
    const int64_t most = i == 0 ? 0 : count;
    const int64_t value = (*splits)[i];
    if (value < least || value > most || (i == last && value != count)) {
      return InvalidArgument("splits must ascend from 0 to ", count,
                             ", the number of indices, but splits[", i,
                             "] = ", value);
    }
  }
  return absl::OkStatus();
}

}  // namespace tf_hsm
