// The loss ops: their signatures, shapes and documentation.

#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// What every loss op begins with.
struct Signature {
  ShapeHandle labels;
  ShapeHandle inputs;
  DimensionHandle width;
  int next = 0;  // the first input after these
};

// With `embeds`, `indices` stand for the inputs.
absl::Status ReadSignature(InferenceContext* c, bool is_handle, Signature* s,
                           bool embeds = false) {
  tf_hsm::Parameters parameters;
  TF_RETURN_IF_ERROR(tf_hsm::ReadParameters(c, is_handle, &parameters));
  DimensionHandle rows = parameters.rows;
  s->width = parameters.width;
  int next = parameters.next;
  s->labels = c->input(next++);
  if (embeds) {
    TF_RETURN_IF_ERROR(c->Merge(s->labels, c->input(next++), &s->labels));
  } else {
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(next++), 1, &s->inputs));
    TF_RETURN_IF_ERROR(c->Merge(s->width, c->Dim(s->inputs, -1), &s->width));
    if (c->RankKnown(s->inputs)) {
      ShapeHandle leading;
      TF_RETURN_IF_ERROR(c->Subshape(s->inputs, 0, -1, &leading));
      TF_RETURN_IF_ERROR(c->Merge(s->labels, leading, &s->labels));
    }
  }
  TF_RETURN_IF_ERROR(
      c->Concatenate(s->labels, c->Vector(s->width), &s->inputs));

  ShapeHandle offsets, parents, class_rows, row_groups, ranks, merged;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &offsets));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &parents));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &class_rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &row_groups));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &ranks));
  DimensionHandle groups;
  TF_RETURN_IF_ERROR(c->Add(c->Dim(parents, 0), 1, &groups));
  TF_RETURN_IF_ERROR(c->Merge(groups, c->Dim(offsets, 0), &groups));
  TF_RETURN_IF_ERROR(c->Merge(rows, c->Dim(row_groups, 0), &rows));
  TF_RETURN_IF_ERROR(c->Merge(class_rows, ranks, &merged));
  s->next = next;
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status LossShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  bool with_gradients = true;
  TF_RETURN_IF_ERROR(c->GetAttr("with_gradients", &with_gradients));
  c->set_output(0, s.labels);
  c->set_output(1, with_gradients ? s.inputs : c->Vector(0));
  c->set_output(2,
                c->Matrix(with_gradients ? c->UnknownDim() : c->MakeDim(0), 2));
  c->set_output(3, with_gradients ? c->UnknownShapeOfRank(1) : c->Vector(0));
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status LossGradShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(c->input(s.next), s.labels, &merged));
  TF_RETURN_IF_ERROR(
      c->Merge(c->input(s.next + 1), c->Matrix(c->UnknownDim(), 2), &merged));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s.next + 2), 1, &merged));
  const DimensionHandle rows = c->UnknownDim();
  c->set_output(0, c->Vector(rows));
  c->set_output(1, c->Matrix(rows, s.width));
  c->set_output(2, c->Vector(rows));
  return absl::OkStatus();
}

template <bool embeds>
absl::Status TrainStepShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, true, &s, embeds));
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(c->input(s.next), s.labels, &merged));
  TF_RETURN_IF_ERROR(c->Merge(c->input(s.next + 1), c->Vector(4), &merged));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s.next + 2), 0, &merged));
  c->set_output(0, s.labels);
  if (embeds) {
    int first = s.next + 3, slots = 0;
    for (const char* name : {"num_weight_slots", "num_bias_slots"}) {
      TF_RETURN_IF_ERROR(c->GetAttr(name, &slots));
      first += slots;
    }
    ShapeHandle vectors;
    TF_RETURN_IF_ERROR(
        c->WithRank(tf_hsm::ParameterShape(c, first, true), 2, &vectors));
    return c->Merge(s.width, c->Dim(vectors, 1), &s.width);
  }
  bool with_gradients = true;
  TF_RETURN_IF_ERROR(c->GetAttr("with_gradients", &with_gradients));
  c->set_output(1, with_gradients ? s.inputs : c->Vector(0));
  return absl::OkStatus();
}

}  // namespace

#define TF_HSM_TREE_INPUTS           \
  Input("group_offsets: int64")      \
      .Input("group_parents: int64") \
      .Input("class_rows: int64")    \
      .Input("row_groups: int64")    \
      .Input("class_ranks: int64")

#define TF_HSM_COMMON_INPUTS    \
  Input("biases: BiasTypes")    \
      .Input("labels: Tlabels") \
      .Input("inputs: Tinputs") \
      .TF_HSM_TREE_INPUTS

#define TF_HSM_PARAMETER_ATTRS                    \
  Attr("BiasTypes: list(type) >= 0")              \
      .Attr("T: {float, bfloat16, half, double}") \
      .Attr("Tlabels: {int32, int64}")            \
      .Attr("Taccumulator: {float, double}")      \
      .Attr("ignore_classes: list(int) = []")

#define TF_HSM_COMMON_ATTRS \
  TF_HSM_PARAMETER_ATTRS.Attr("Tinputs: {float, bfloat16, half, double}")

#define TF_HSM_STEP_INPUTS                                \
  Input("loss_grads: Taccumulator")                       \
      .Input("hyperparameters: double")                   \
      .Input("seed: int64")                               \
      .Input("weight_slots: num_weight_slots * resource") \
      .Input("bias_slots: num_bias_slots * resource")

#define TF_HSM_STEP_ATTRS                                          \
  Attr("num_weight_slots: int >= 0")                               \
      .Attr("num_bias_slots: int >= 0")                            \
      .Attr("rule: {'sgd', 'adagrad', 'rowwise_adagrad', 'adam'}") \
      .Attr("stochastic_rounding: bool = false")

#define TF_HSM_LOSS_OUTPUTS                \
  Output("loss: Taccumulator")             \
      .Output("input_grads: Taccumulator") \
      .Output("normalizers: Taccumulator") \
      .Output("probs: Taccumulator")       \
      .Attr("with_gradients: bool = true")

#define TF_HSM_GRAD_OUTPUTS               \
  Input("loss_grads: Taccumulator")       \
      .Input("normalizers: Taccumulator") \
      .Input("probs: Taccumulator")       \
      .Output("rows: int64")              \
      .Output("weight_grads: T")          \
      .Output("bias_grads: T")

namespace {

constexpr char kLossDoc[] = R"doc(
The hierarchical softmax loss -log p(label | inputs), in nats.

For each row r on the path from the root to the label's leaf, adds
log-sum-exp(z over r's group) - z_r, where z_r = weights[r] . inputs + biases[r].
The tree is five arrays, made once per tree by tf_hsm.Tree and checked along
the paths that are walked. The weights are read in place.

weights: `[rows, width]`; a tensor, or the handle of a variable, whose shared
  lock is held while the op runs and which is never copied.
biases: nothing, or one `[rows]` tensor or variable handle.
labels: `[...]`, each in [0, classes) or one of ignore_classes.
inputs: `[..., width]`.
group_offsets: `[groups + 1]`; group g owns rows [offsets[g], offsets[g + 1]).
group_parents: `[groups]`, the row above each group, -1 for the root's.
class_rows: `[classes]`, the leaf of each class.
row_groups: `[rows]`, the group of each row.
class_ranks: `[classes]`, the depth-first rank of each class's leaf.
loss: `[...]`; 0 for an ignored label.
input_grads: `[..., width]`, the gradient of each loss by its inputs; empty
  without with_gradients.
normalizers: for the gradient: `[passes, 2]`, per touched group and example the
  maximum m of the logits and 1 / sum exp(z - m).
probs: for the gradient: the softmax of each touched group, or empty where that
  would be large, and is then made again.
ignore_classes: labels with loss 0 and no gradient.
with_gradients: whether the outputs for the gradient are made.
)doc";

constexpr char kGradDoc[] = R"doc(
The gradient of the hierarchical softmax loss by weights and biases.

Inputs as for the loss op, then the gradient of the total by each loss, and what
the loss op kept.

rows: `[touched]`, ascending and unique: the rows of every group that a label's
  path passes.
weight_grads: `[touched, width]`.
bias_grads: `[touched]`.
)doc";

constexpr char kTrainStepDoc[] = R"doc(
The hierarchical softmax loss, and one step of an optimizer in place.

Makes the losses and their gradients by the inputs, both with the parameters as
they were, and applies an update rule to the rows of every group that a label's
path passes: to the gradient of the sum of loss_grads * loss. Holds the exclusive
locks of all variables meanwhile. No gradient of the weights is ever stored.

Inputs as for the loss op, all parameters as variables, then:

loss_grads: `[...]`, the weight of each loss in what is minimized.
hyperparameters: `[4]`: the learning rate (of adam, with the correction of its
  averages' bias), beta_1, beta_2, epsilon.
seed: scalar, of stochastic_rounding; another one for each step.
weight_slots: variables of the rule: none for sgd, one for adagrad, two for adam
  (mean and mean square), `[rows, width]`; one for rowwise_adagrad, `[rows]`.
bias_slots: the same for biases, `[rows]`.
loss: `[...]`; 0 for an ignored label.
input_grads: `[..., width]`, the gradient of that sum by the inputs; empty
  without with_gradients.
stochastic_rounding: of bfloat16 parameters; else to nearest even.
)doc";

constexpr char kEmbeddingTrainStepDoc[] = R"doc(
ResourceTfHsmTrainStep of inputs that are rows of a variable, updated as well.

The inputs of a label are vectors[its index]. The gradients of one vector are
summed in the depth-first order of their labels' leaves. Neither inputs nor
gradients leave the op.

Inputs as for ResourceTfHsmTrainStep, but, instead of inputs and input_grads:

indices: `[...]`, of the shape of the labels, each in [0, count); those of
  ignored labels update nothing.
vectors: a variable `[count, width]` of the weights' type.
vector_slots: variables of the rule, as weight_slots: `[count, width]` or
  `[count]`.
)doc";

}  // namespace

REGISTER_OP("TfHsmLoss")
    .Input("weights: T")
    .TF_HSM_COMMON_INPUTS.TF_HSM_COMMON_ATTRS.TF_HSM_LOSS_OUTPUTS
    .SetShapeFn(LossShape<false>)
    .Doc(kLossDoc);

REGISTER_OP("ResourceTfHsmLoss")
    .Input("weights: resource")
    .TF_HSM_COMMON_INPUTS.TF_HSM_COMMON_ATTRS.TF_HSM_LOSS_OUTPUTS
    .SetIsStateful()
    .SetShapeFn(LossShape<true>)
    .Doc(kLossDoc);

REGISTER_OP("TfHsmLossGrad")
    .Input("weights: T")
    .TF_HSM_COMMON_INPUTS.TF_HSM_GRAD_OUTPUTS.TF_HSM_COMMON_ATTRS
    .SetShapeFn(LossGradShape<false>)
    .Doc(kGradDoc);

REGISTER_OP("ResourceTfHsmLossGrad")
    .Input("weights: resource")
    .TF_HSM_COMMON_INPUTS.TF_HSM_GRAD_OUTPUTS.TF_HSM_COMMON_ATTRS
    .SetIsStateful()
    .SetShapeFn(LossGradShape<true>)
    .Doc(kGradDoc);

REGISTER_OP("ResourceTfHsmTrainStep")
    .Input("weights: resource")
    .TF_HSM_COMMON_INPUTS.TF_HSM_STEP_INPUTS.Output("loss: Taccumulator")
    .Output("input_grads: Taccumulator")
    .TF_HSM_COMMON_ATTRS.Attr("with_gradients: bool = true")
    .TF_HSM_STEP_ATTRS.SetIsStateful()
    .SetShapeFn(TrainStepShape<false>)
    .Doc(kTrainStepDoc);

REGISTER_OP("ResourceTfHsmEmbeddingTrainStep")
    .Input("weights: resource")
    .Input("biases: BiasTypes")
    .Input("labels: Tlabels")
    .Input("indices: Tindices")
    .TF_HSM_TREE_INPUTS.TF_HSM_STEP_INPUTS.Input("vectors: resource")
    .Input("vector_slots: num_weight_slots * resource")
    .Output("loss: Taccumulator")
    .TF_HSM_PARAMETER_ATTRS.Attr("Tindices: {int32, int64}")
    .TF_HSM_STEP_ATTRS.SetIsStateful()
    .SetShapeFn(TrainStepShape<true>)
    .Doc(kEmbeddingTrainStepDoc);

REGISTER_OP("TfHsmCpuIsa")
    .Output("name: string")
    .SetShapeFn(shape_inference::ScalarShape)
    .Doc(R"doc(
The instruction set that the CPU kernels run with.

name: one of "baseline", "avx2", "avx512", "amx".
)doc");

}  // namespace tensorflow
