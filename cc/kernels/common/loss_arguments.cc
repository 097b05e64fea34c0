#include "cc/kernels/common/loss_arguments.h"

#include <string>

namespace tf_hsm {

absl::Status LossAttributes::Read(OpKernelConstruction* context) {
  // A label tree cannot be pinned.
  if (context->HasAttr("pinned")) {
    TF_RETURN_IF_ERROR(TreeAttributes::Read(context));
  }
  TF_RETURN_IF_ERROR(context->GetAttr("ignore_classes", &ignored));
  if (context->HasAttr("label_smoothing")) {
    TF_RETURN_IF_ERROR(context->GetAttr("label_smoothing", &label_smoothing));
  }
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    return InvalidArgument("label_smoothing must be in [0, 1], but is ",
                           label_smoothing);
  }
  if (label_smoothing > 0 && logit_soft_cap > 0) {
    return InvalidArgument(
        "label_smoothing and logit_soft_cap exclude each other");
  }
  if (context->HasAttr("z_loss")) {
    TF_RETURN_IF_ERROR(context->GetAttr("z_loss", &z_loss));
  }
  TF_RETURN_IF_ERROR(CheckOption("z_loss", z_loss));
  if (context->HasAttr("combiner")) {
    std::string combiner;
    TF_RETURN_IF_ERROR(context->GetAttr("combiner", &combiner));
    takes_means = combiner == "mean";
  }
  if (!context->HasAttr("with_gradients")) return absl::OkStatus();
  return context->GetAttr("with_gradients", &with_gradients);
}

absl::Status LossArguments::ReadIndices(OpKernelContext* context) {
  TF_RETURN_IF_ERROR(context->input("indices", &indices));
  TF_RETURN_IF_ERROR(FindOptional(context, "splits", &splits));
  if (splits == nullptr) {
    TF_RETURN_IF_ERROR(FindOptional(context, "index_weights", &index_weights));
    if (index_weights != nullptr) {
      return InvalidArgument(
          "index_weights are for bags, but there are no splits");
    }
    if (indices->shape() == batch_shape) return absl::OkStatus();
    return InvalidArgument("indices must have the shape of labels, ",
                           batch_shape.DebugString(), ", but have ",
                           indices->shape().DebugString());
  }
  if (batch_shape.dims() != 1 || indices->dims() != 1) {
    return InvalidArgument(
        "labels and indices of bags must be vectors, but have the shapes ",
        batch_shape.DebugString(), " and ", indices->shape().DebugString());
  }
  TF_RETURN_IF_ERROR(CheckShape("splits", *splits,
                                TensorShape({batch_shape.dim_size(0) + 1})));
  const bool is_double = parameters.weights().dtype() == tensorflow::DT_DOUBLE;
  return ReadOptional(context, "index_weights",
                      is_double ? tensorflow::DT_DOUBLE : tensorflow::DT_FLOAT,
                      indices->shape(), &index_weights);
}

absl::Status LossArguments::ReadSmoothingPrior(
    OpKernelContext* context, const LossAttributes& attributes) {
  TF_RETURN_IF_ERROR(
      ReadOptional(context, "smoothing_prior", tensorflow::DT_FLOAT,
                   TensorShape({tree.num_rows}), &smoothing_prior));
  if (smoothing_prior == nullptr || attributes.label_smoothing > 0) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "smoothing_prior is for a label_smoothing above 0, but that is 0; set "
      "it, or leave out the prior");
}

absl::Status LossArguments::Read(OpKernelContext* context,
                                 const LossAttributes& attributes,
                                 bool label_sets) {
  width = parameters.weights().dim_size(1);
  TF_RETURN_IF_ERROR(CheckWidth("weights", width));
  TF_RETURN_IF_ERROR(context->input("labels", &labels));
  batch_shape = labels->shape();
  if (label_sets) {
    const int rank = batch_shape.dims();
    if (rank == 0) {
      return InvalidArgument(
          "labels must have the shape [..., count], but are a scalar");
    }
    num_labels = batch_shape.dim_size(rank - 1);
    batch_shape.RemoveLastDims(1);
  }
  TensorShape wanted = batch_shape;
  TF_RETURN_IF_ERROR(wanted.AddDimWithStatus(width));
  if (parameters.vectors() != nullptr) {
    TF_RETURN_IF_ERROR(ReadIndices(context));
  } else {
    TF_RETURN_IF_ERROR(context->input("inputs", &inputs));
    if (inputs->shape() != wanted) {
      return InvalidArgument(
          "inputs must have the shape ", wanted.DebugString(),
          label_sets ? ", that of labels without the last dimension"
                     : ", that of labels",
          " and then the width of weights, but have ",
          inputs->shape().DebugString());
    }
  }

  const Tensor* array = nullptr;
  TF_RETURN_IF_ERROR(context->input("group_parents", &array));
  tree.num_groups = array->NumElements();
  TF_RETURN_IF_ERROR(context->input("class_rows", &array));
  tree.num_classes = array->NumElements();
  const int64_t weight_rows = parameters.weights().dim_size(0);
  tree.pinned = attributes.pinned;
  TF_RETURN_IF_ERROR(
      tree.pinned ? ReadVector(context, "group_parents", weight_rows,
                               "one per row of weights of a pinned tree (the "
                               "weights must be made for this tree)",
                               &tree.group_parents)
                  : ReadVector(context, "group_parents", -1, "one per group",
                               &tree.group_parents));
  tree.num_rows = tree.pinned ? 2 * weight_rows : weight_rows;
  TF_RETURN_IF_ERROR(ReadVector(context, "group_offsets", tree.num_groups + 1,
                                "one more than group_parents",
                                &tree.group_offsets));
  TF_RETURN_IF_ERROR(
      ReadVector(context, "class_rows", -1, "one per class", &tree.class_rows));
  TF_RETURN_IF_ERROR(ReadVector(context, "class_ranks", tree.num_classes,
                                "as class_rows", &tree.class_ranks));
  TF_RETURN_IF_ERROR(
      ReadVector(context, "row_groups", tree.num_rows,
                 tree.pinned ? "two per row of weights of a pinned tree"
                             : "one per row of weights (the weights must be "
                               "made for this tree)",
                 &tree.row_groups));
  // A label tree has none.
  if (!label_sets) {
    TF_RETURN_IF_ERROR(ReadSmoothingPrior(context, attributes));
  }
  TF_RETURN_IF_ERROR(attributes.CheckSoftCap(tree));
  if (attributes.z_loss > 0) TF_RETURN_IF_ERROR(CheckIsFlat("z_loss", tree));
  return CountRoots(&tree);
}

absl::Status ReadLossGrads(OpKernelContext* context,
                           const TensorShape& batch_shape,
                           const Tensor** loss_grads) {
  TF_RETURN_IF_ERROR(context->input("loss_grads", loss_grads));
  if ((*loss_grads)->shape() == batch_shape) return absl::OkStatus();
  return InvalidArgument("loss_grads must have the shape of labels, " +
                         batch_shape.DebugString() + ", but has " +
                         (*loss_grads)->shape().DebugString());
}

TensorShape LossArguments::DxShape(OpKernelContext* context,
                                   const LossAttributes& attributes) const {
  const bool wanted = attributes.with_gradients && context->output_required(1);
  return wanted ? inputs->shape() : TensorShape({0});
}

}  // namespace tf_hsm
