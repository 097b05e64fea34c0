#include "cc/kernels/common/inference_arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tf_hsm {
namespace {

// The value of a scalar input.
template <typename S>
absl::Status ReadScalar(OpKernelContext* context, const char* name, S* value) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input(name, &tensor));
  if (tensor->NumElements() != 1 || tensor->dims() > 0) {
    return InvalidArgument(name, " must be a scalar, but has the shape ",
                           tensor->shape().DebugString());
  }
  *value = *Data<S>(*tensor);
  return absl::OkStatus();
}

// Checks a number of classes, from 1 on.
absl::Status CheckCount(const char* name, int64_t value, int64_t num_classes) {
  if (value >= 1 && value <= num_classes) return absl::OkStatus();
  return InvalidArgument(name, " = ", value, " is outside [1, ", num_classes,
                         "]; the upper end is the number of classes");
}

// The type of sums of numbers of this type.
DataType AccumulatorType(DataType dtype) {
  return dtype == tensorflow::DT_DOUBLE ? dtype : tensorflow::DT_FLOAT;
}

// A batch's shape with one more dimension.
absl::Status Append(const TensorShape& batch, int64_t size,
                    TensorShape* shape) {
  *shape = batch;
  return shape->AddDimWithStatus(size);
}

absl::Status ReadOfShape(OpKernelContext* context, const char* name,
                         const TensorShape& shape, const Tensor** tensor) {
  TF_RETURN_IF_ERROR(context->input(name, tensor));
  return CheckShape(name, **tensor, shape);
}

// Finds the op's input `inputs`, [..., width] of the weights' width.
absl::Status ReadInputs(OpKernelContext* context, int64_t width,
                        const Tensor** inputs) {
  TF_RETURN_IF_ERROR(CheckWidth("weights", width));
  TF_RETURN_IF_ERROR(context->input("inputs", inputs));
  const int rank = (*inputs)->dims();
  if (rank >= 1 && (*inputs)->dim_size(rank - 1) == width) {
    return absl::OkStatus();
  }
  return InvalidArgument("inputs must have the shape [..., ", width,
                         "], the width of weights last, but have ",
                         (*inputs)->shape().DebugString());
}

// The columns of a block, where a row has more than one scale.
constexpr int64_t kScaleBlock = 64;

// The most bytes of a row of 4-bit codes whose number is an int64_t.
constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max() / 2;

// The codes and the scales as the core reads them.
absl::Status ReadCodes(OpKernelContext* context, const Parameters& parameters,
                       QuantizedRows* rows) {
  const Tensor& codes = parameters.weights();
  const Tensor* inputs;
  TF_RETURN_IF_ERROR(context->input("inputs", &inputs));
  const bool is_wide = codes.dtype() == tensorflow::DT_INT8;
  rows->bits = is_wide ? 8 : 4;
  rows->width = codes.dim_size(1);
  if (!is_wide && inputs->dims() > 0) {
    // Two codes in a byte: the inputs tell whether the last one has two.
    const int64_t width = inputs->dim_size(inputs->dims() - 1);
    rows->width = 2 * std::min(rows->width, kMaxBytes);
    if (width == rows->width - 1) rows->width = width;
  }
  const int64_t blocks = parameters.scales()->dim_size(1);
  rows->block = blocks == 1 ? std::max<int64_t>(rows->width, 1) : kScaleBlock;
  if (blocks != 1 && blocks != rows->NumBlocks()) {
    return InvalidArgument("scales must have one column, or one for each ",
                           kScaleBlock, " columns of weights, which are ",
                           rows->width, ", but have the shape ",
                           parameters.scales()->shape().DebugString());
  }
  rows->codes = Data<const uint8_t>(codes);
  rows->scales = Data<const float>(*parameters.scales());
  return absl::OkStatus();
}

}  // namespace

absl::Status InferenceArguments::Read(OpKernelContext* context,
                                      const TreeAttributes& attributes,
                                      DataType dtype) {
  TF_RETURN_IF_ERROR(parameters.ReadWithScales(context, dtype));
  const Tensor& weights = parameters.weights();
  width = weights.dim_size(1);
  if (parameters.scales() != nullptr) {
    TF_RETURN_IF_ERROR(ReadCodes(context, parameters, &quantized));
    width = quantized.width;
  }
  TF_RETURN_IF_ERROR(ReadInputs(context, width, &inputs));
  tree.pinned = attributes.pinned;
  TF_RETURN_IF_ERROR(ReadTreeBelow(context, weights.dim_size(0), &tree));
  batch_shape = inputs->shape();
  batch_shape.RemoveLastDims(1);
  num_examples = batch_shape.num_elements();
  TensorShape of_roots;
  TF_RETURN_IF_ERROR(Append(batch_shape, tree.num_roots, &of_roots));
  TF_RETURN_IF_ERROR(ReadOptional(context, "root_log_probs",
                                  AccumulatorType(dtype), of_roots,
                                  &root_log_probs));
  return attributes.CheckSoftCap(tree);
}

absl::Status SigmoidAttributes::Read(OpKernelConstruction* context) {
  TF_RETURN_IF_ERROR(TreeAttributes::Read(context));
  TF_RETURN_IF_ERROR(context->GetAttr("has_sigmoids", &has_sigmoids));
  if (has_sigmoids && logit_soft_cap > 0) {
    return InvalidArgument(
        "logit_soft_cap is for softmaxes, not for the sigmoids of a label "
        "tree");
  }
  if (has_sigmoids && pinned) {
    return InvalidArgument(
        "pinned: each row of a label tree has a sigmoid and weights of its "
        "own; call tree.expand()");
  }
  return absl::OkStatus();
}

absl::Status TopKInputs::Read(OpKernelContext* context,
                              const InferenceArguments& in) {
  TF_RETURN_IF_ERROR(ReadScalar(context, "k", &k));
  TF_RETURN_IF_ERROR(ReadScalar(context, "beam_width", &beam_width));
  TF_RETURN_IF_ERROR(CheckCount("k", k, in.tree.num_classes));
  if (beam_width < 0) {
    return InvalidArgument("beam_width = ", beam_width, " is below 1");
  }
  const DataType dtype = AccumulatorType(in.parameters.weights().dtype());
  TF_RETURN_IF_ERROR(
      ReadOptional(context, "bounds", dtype, in.batch_shape, &bounds));
  TF_RETURN_IF_ERROR(ReadMask(context, in));
  return Append(in.batch_shape, k, &shape);
}

absl::Status TopKInputs::ReadMask(OpKernelContext* context,
                                  const InferenceArguments& in) {
  const Tensor *spans, *ranks, *splits;
  // They are lists of one length.
  TF_RETURN_IF_ERROR(FindOptional(context, "row_spans", &spans));
  TF_RETURN_IF_ERROR(FindOptional(context, "allowed_ranks", &ranks));
  TF_RETURN_IF_ERROR(FindOptional(context, "allowed_splits", &splits));
  has_mask = spans != nullptr;
  if (!has_mask) return absl::OkStatus();
  const TensorShape of_rows({in.tree.num_rows, 2});
  TF_RETURN_IF_ERROR(CheckShape("row_spans", *spans, of_rows));
  if (ranks->dims() != 1) {
    return InvalidArgument("allowed_ranks must have the shape [n], but has ",
                           ranks->shape().DebugString());
  }
  const int64_t lists = splits->NumElements() - 1;
  if (splits->dims() != 1 || (lists != 1 && lists != in.num_examples)) {
    return InvalidArgument(
        "allowed_splits must have the shape [2], of one list, or [",
        in.num_examples + 1, "], of one list for each of the ", in.num_examples,
        " inputs, but has ", splits->shape().DebugString());
  }
  mask = {Data<int64_t>(*spans), Data<int64_t>(*ranks), ranks->NumElements(),
          Data<int64_t>(*splits), lists};
  return absl::OkStatus();
}

absl::Status SampleInputs::Read(OpKernelContext* context,
                                const InferenceArguments& in) {
  if (in.tree.num_roots > 1 && in.root_log_probs == nullptr) {
    return InvalidArgument(
        "root_log_probs must be there to draw from a forest of ",
        in.tree.num_roots, " trees");
  }
  const Tensor* seed;
  TF_RETURN_IF_ERROR(ReadOfShape(context, "seed", TensorShape({2}), &seed));
  const int64_t* seeds = Data<int64_t>(*seed);
  options.seed_0 = static_cast<uint64_t>(seeds[0]);
  options.seed_1 = static_cast<uint64_t>(seeds[1]);
  TF_RETURN_IF_ERROR(ReadScalar(context, "num_samples", &options.num_samples));
  TF_RETURN_IF_ERROR(ReadScalar(context, "temperature", &options.temperature));
  TF_RETURN_IF_ERROR(ReadScalar(context, "top_k", &options.top_k));
  TF_RETURN_IF_ERROR(ReadScalar(context, "top_p", &options.top_p));
  if (options.num_samples < 0) {
    return InvalidArgument("num_samples = ", options.num_samples,
                           " is negative");
  }
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return InvalidArgument("temperature = ", options.temperature,
                           " is not a finite number of at least 0");
  }
  if (options.top_k != 0) {
    TF_RETURN_IF_ERROR(CheckCount("top_k", options.top_k, in.tree.num_classes));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return InvalidArgument("top_p = ", options.top_p, " is outside (0, 1]");
  }
  options = Resolved(options, in.tree.num_classes);
  if (Append(in.batch_shape, options.num_samples, &shape).ok()) {
    return absl::OkStatus();
  }
  return InvalidArgument("num_samples = ", options.num_samples,
                         " is too large for ", in.num_examples, " inputs");
}

absl::Status ClassInputs::Read(OpKernelContext* context,
                               const InferenceArguments& in, TreeView* tree) {
  TF_RETURN_IF_ERROR(ReadTreeAbove(context, tree));
  TF_RETURN_IF_ERROR(context->input("classes", &classes));
  TensorShape leading = classes->shape();
  if (leading.dims() > 0) {
    count = leading.dim_size(leading.dims() - 1);
    leading.RemoveLastDims(1);
    if (leading == in.batch_shape) return absl::OkStatus();
  }
  return InvalidArgument(
      "classes must have the shape of inputs but for its last dimension, ",
      in.batch_shape.DebugString(), ", and one more dimension, but have ",
      classes->shape().DebugString());
}

absl::Status LabelRanksInputs::Read(OpKernelContext* context,
                                    const InferenceArguments& in,
                                    TreeView* tree) {
  TF_RETURN_IF_ERROR(ReadTreeAbove(context, tree));
  TF_RETURN_IF_ERROR(ReadOfShape(context, "labels", in.batch_shape, &labels));
  TF_RETURN_IF_ERROR(ReadScalar(context, "k", &k));
  return CheckCount("k", k, tree->num_classes);
}

absl::Status LogProbsShapes::Make(const InferenceArguments& in,
                                  const LogProbsAttributes& attributes) {
  const TreeView& tree = in.tree;
  const int64_t last = attributes.of_nodes ? tree.num_rows : tree.num_classes;
  TF_RETURN_IF_ERROR(Append(in.batch_shape, last, &log_probs));
  TF_RETURN_IF_ERROR(Append(in.batch_shape, tree.num_groups, &groups));
  TF_RETURN_IF_ERROR(Append(in.batch_shape, tree.num_roots, &roots));
  return Append(TensorShape({in.num_examples}), tree.num_weight_rows(),
                &logits);
}

absl::Status LogProbsShapes::ReadGradInputs(OpKernelContext* context,
                                            const Tensor** grads,
                                            const Tensor** values,
                                            const Tensor** groups_read) const {
  TF_RETURN_IF_ERROR(ReadOfShape(context, "grads", log_probs, grads));
  TF_RETURN_IF_ERROR(ReadOfShape(context, "log_probs", log_probs, values));
  return ReadOfShape(context, "group_log_probs", groups, groups_read);
}

}  // namespace tf_hsm
