// The loss ops: their signatures, shapes and documentation.

#include "cc/ops/op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace tf_hsm {
namespace {

// What a batch is: inputs with a label each, with a set of labels each, or with
// a label and an index of a vector, or a bag of such, the input `indices` in
// place of `inputs`.
enum class BatchOf { kLabels, kLabelSets, kIndices };

// Reads what every op on a batch begins with.
absl::Status ReadSignature(InferenceContext* c, bool is_handle, BatchOf of,
                           Signature* s) {
  TF_RETURN_IF_ERROR(ReadParameters(c, is_handle, s));
  if (of != BatchOf::kLabelSets) TF_RETURN_IF_ERROR(ReadPinned(c, s));
  s->batch = c->input(s->next++);
  if (of == BatchOf::kLabelSets) {
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(s->batch, 1, &s->batch));
    TF_RETURN_IF_ERROR(c->Subshape(s->batch, 0, -1, &s->batch));
  }
  if (of == BatchOf::kIndices) {
    int num_splits = 0;
    TF_RETURN_IF_ERROR(c->GetAttr("num_splits", &num_splits));
    const ShapeHandle indices = c->input(s->next++);
    TF_RETURN_IF_ERROR(num_splits == 0 ? c->Merge(s->batch, indices, &s->batch)
                                       : c->WithRank(s->batch, 1, &s->batch));
  } else {
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(s->next++), 1, &s->inputs));
    TF_RETURN_IF_ERROR(c->Merge(s->width, c->Dim(s->inputs, -1), &s->width));
    if (c->RankKnown(s->inputs)) {
      ShapeHandle leading;
      TF_RETURN_IF_ERROR(c->Subshape(s->inputs, 0, -1, &leading));
      TF_RETURN_IF_ERROR(c->Merge(s->batch, leading, &s->batch));
    }
  }
  TF_RETURN_IF_ERROR(c->Concatenate(s->batch, c->Vector(s->width), &s->inputs));

  ShapeHandle offsets, parents, class_rows, row_groups, ranks, merged;
  for (ShapeHandle* array :
       {&offsets, &parents, &class_rows, &row_groups, &ranks}) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(s->next++), 1, array));
  }
  TF_RETURN_IF_ERROR(MergeGroups(c, c->Dim(parents, 0), s));
  TF_RETURN_IF_ERROR(c->Add(c->Dim(parents, 0), 1, &s->groups));
  TF_RETURN_IF_ERROR(c->Merge(s->groups, c->Dim(offsets, 0), &s->groups));
  TF_RETURN_IF_ERROR(c->Merge(s->rows, c->Dim(row_groups, 0), &s->rows));
  if (of != BatchOf::kLabelSets) {
    std::vector<ShapeHandle> priors;
    TF_RETURN_IF_ERROR(c->input("smoothing_prior", &priors));
    for (const ShapeHandle prior : priors) {
      TF_RETURN_IF_ERROR(c->Merge(prior, c->Vector(s->rows), &merged));
    }
  }
  return c->Merge(class_rows, ranks, &merged);
}

OpDefinition& DefineTree(OpDefinition& op) {
  return op.Input("group_offsets: int64")
      .Input("group_parents: int64")
      .Input("class_rows: int64")
      .Input("row_groups: int64")
      .Input("class_ranks: int64");
}

OpDefinition& DefineParameterAttrs(OpDefinition& op) {
  return op.Attr("BiasTypes: list(type) >= 0")
      .Attr(ElementTypeAttr("T"))
      .Attr("Taccumulator: {float, double}");
}

OpDefinition& DefineBatchAttrs(OpDefinition& op) {
  return DefineParameterAttrs(op)
      .Attr("Tlabels: {int32, int64}")
      .Attr("ignore_classes: list(int) = []");
}

// What the ops on softmaxes add after their other inputs, and not those on
// label trees.
OpDefinition& DefineSoftmax(OpDefinition* op) {
  return op->Input("smoothing_prior: num_smoothing_priors * float")
      .Attr("num_smoothing_priors: int >= 0 = 0")
      .Attr("label_smoothing: float = 0.0")
      .Attr(kSoftCapAttr)
      .Attr("z_loss: float = 0.0")
      .Attr(kPinnedAttr);
}

// What the ops on given inputs begin with.
OpDefinition& DefineInputs(OpDefinition* op) {
  op->Input("biases: BiasTypes")
      .Input("labels: Tlabels")
      .Input("inputs: Tinputs");
  DefineTree(*op);
  return DefineBatchAttrs(*op).Attr(ElementTypeAttr("Tinputs"));
}

// What the training steps add, before the inputs and outputs of their own.
OpDefinition& DefineUpdate(OpDefinition& op) {
  return op.Input("hyperparameters: double")
      .Input("seed: int64")
      .Input("weight_slots: num_weight_slots * resource")
      .Input("bias_slots: num_bias_slots * resource");
}

OpDefinition& DefineStep(OpDefinition& op) {
  return DefineUpdate(op.Input("loss_grads: Taccumulator"));
}

OpDefinition& DefineStepAttrs(OpDefinition& op) {
  return op.Attr("num_weight_slots: int >= 0")
      .Attr("num_bias_slots: int >= 0")
      .Attr(RuleAttr())
      .Attr("stochastic_rounding: bool = false");
}

template <BatchOf of>
absl::Status LossShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, of, &s));
  bool with_gradients = true;
  TF_RETURN_IF_ERROR(c->GetAttr("with_gradients", &with_gradients));
  c->set_output(0, s.batch);
  c->set_output(1, with_gradients ? s.inputs : c->Vector(0));
  c->set_output(2, c->Scalar());
  return absl::OkStatus();
}

void DefineLoss(OpDefinition* op) {
  DefineInputs(op)
      .Output("loss: Taccumulator")
      .Output("input_grads: Taccumulator")
      .Output("state: variant")
      .Attr("with_gradients: bool = true");
}

const OpRegistration loss(
    "TfHsmLoss", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineLoss(op);
      DefineSoftmax(op);
    },
    LossShape<BatchOf::kLabels>, R"doc(
The hierarchical softmax loss -log p(label | inputs), in nats.

For each row r on the path from the root to the label's leaf, adds
log-sum-exp(z over r's group) - z_r, where z_r = weights[r] . inputs + biases[r].
The tree is five arrays, made once per tree by tf_hsm.Tree and checked along
the paths that are walked. There are classes + groups - rows roots: of a forest,
the loss is that below the label's root. The weights are read in place.

weights: `[rows, width]`; a tensor, or the handle of a variable, whose shared
  lock is held while the op runs and which is never copied.
biases: nothing, or one `[rows]` tensor or variable handle.
labels: `[...]`, each in [0, classes) or one of ignore_classes.
inputs: `[..., width]`.
group_offsets: `[groups + 1]`; group g owns rows [offsets[g], offsets[g + 1]).
group_parents: `[groups]`, the row above each group, -1 for a root's.
class_rows: `[classes]`, the leaf of each class; or all `[rows]`, where labels
  are nodes: then class_ranks are their places in depth-first order, each before
  the nodes below it.
row_groups: `[rows]`, the group of each row.
class_ranks: `[classes]`, the depth-first rank of each class's leaf, tree after
  tree.
loss: `[...]`; 0 for an ignored label.
input_grads: `[..., width]`, the gradient of each loss by its inputs; empty
  without with_gradients.
state: for the gradient: a scalar in host memory that holds the batch in sorted
  order and what was made of it, in the memory of the device. It stays in this
  process and on this device, and cannot be made otherwise.
ignore_classes: labels with loss 0 and no gradient.
label_smoothing: in [0, 1], the share of each group's target that is spread
  over the group's rows: z_r becomes (1 - s) z_r + s mean z.
smoothing_prior: nothing, and the mean is the plain one; or one `[rows]`, also of
  a pinned tree's rows, the weight of each row in the mean of its group, in
  [0, 1]: those of a group sum to 1. Only the groups on the labels' paths are
  read and, on CPUs, checked. Needs a label_smoothing above 0.
logit_soft_cap: c > 0: the logits are c tanh(z_r / c); 0: they are z_r. For a
  tree of one group of 9 rows or more, without label_smoothing.
z_loss: at least 0; the loss has z_loss times the square of log-sum-exp(z) more.
  For a tree of one group of 9 rows or more.
with_gradients: whether the outputs for the gradient are made.
pinned: whether weights and biases have a row for each group, that of its first
  row; each group then has two, of which the second has the logit 0.
)doc");

const OpRegistration label_tree_loss("TfHsmLabelTreeLoss",
                                     On::kTensorsAndVariables, DefineLoss,
                                     LossShape<BatchOf::kLabelSets>, R"doc(
The loss of a label tree, where an example may have any number of labels.

Each row r has a sigmoid, p_r = 1 / (1 + exp(-z_r)), of z_r as in TfHsmLoss. The
loss is the sum of the binary cross-entropies of the rows of the root's group and
of every group below a row that is on the path of one of the labels; these rows
are positive, the others negative. TfHsmLossGrad is the gradient of this op too.

Inputs and outputs as for TfHsmLoss, of a tree of one root, but:

labels: `[..., count]`, each in [0, classes) or one of ignore_classes, which
  stand for none. A label that stands there twice counts once.
)doc");

absl::Status LossGradShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadParameters(c, is_handle, &s));
  ShapeHandle state;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s.next + 1), 0, &state));
  const DimensionHandle rows = c->UnknownDim();
  c->set_output(0, c->Vector(rows));
  c->set_output(1, c->Matrix(rows, s.width));
  c->set_output(2, c->Vector(rows));
  return absl::OkStatus();
}

const OpRegistration loss_grad(
    "TfHsmLossGrad", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineParameterAttrs(op->Input("biases: BiasTypes")
                               .Input("loss_grads: Taccumulator")
                               .Input("state: variant")
                               .Output("rows: int64")
                               .Output("weight_grads: T")
                               .Output("bias_grads: T"));
    },
    LossGradShape, R"doc(
The gradient of the hierarchical softmax loss by weights and biases.

Labels, inputs and tree are those of the loss that made the state.

weights: `[rows, width]`, as the loss op had them, and unchanged since then.
biases: likewise.
loss_grads: of the shape of the labels, the gradient of the total by each loss.
state: what the loss op kept.
rows: `[touched]`, ascending and unique: the rows of the weights of every group
  that a label's path passes.
weight_grads: `[touched, width]`.
bias_grads: `[touched]`.
)doc");

// Reads the hyperparameters and the seed.
absl::Status ReadNumbers(InferenceContext* c, Signature* s) {
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s->next++), 1, &merged));
  const DimensionHandle numbers = c->Dim(merged, 0);
  if (c->ValueKnown(numbers) && c->Value(numbers) != 4) {
    TF_RETURN_IF_ERROR(c->Merge(merged, c->Vector(7), &merged));
  }
  return c->WithRank(c->input(s->next++), 0, &merged);
}

// Reads what the training steps begin with, and sets the output `loss`.
absl::Status ReadStep(InferenceContext* c, BatchOf of, Signature* s) {
  TF_RETURN_IF_ERROR(ReadSignature(c, /*is_handle=*/true, of, s));
  ShapeHandle merged;
  TF_RETURN_IF_ERROR(c->Merge(c->input(s->next++), s->batch, &merged));
  c->set_output(0, s->batch);
  return ReadNumbers(c, s);
}

template <BatchOf of>
absl::Status TrainStepShape(InferenceContext* c, bool) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadStep(c, of, &s));
  bool with_gradients = true;
  TF_RETURN_IF_ERROR(c->GetAttr("with_gradients", &with_gradients));
  c->set_output(1, with_gradients ? s.inputs : c->Vector(0));
  return absl::OkStatus();
}

void DefineTrainStep(OpDefinition* op) {
  DefineStep(DefineInputs(op))
      .Output("loss: Taccumulator")
      .Output("input_grads: Taccumulator")
      .Attr("with_gradients: bool = true");
  DefineStepAttrs(*op);
}

const OpRegistration train_step(
    "TfHsmTrainStep", On::kVariables,
    [](OpDefinition* op) {
      DefineTrainStep(op);
      DefineSoftmax(op);
    },
    TrainStepShape<BatchOf::kLabels>, R"doc(
The hierarchical softmax loss, and one step of an optimizer in place.

Makes the losses and their gradients by the inputs, both with the parameters as
they were, and applies an update rule to the rows of every group that a label's
path passes: to the gradient of the sum of loss_grads * loss. Holds the exclusive
locks of all variables meanwhile. No gradient of the weights is ever stored.

Inputs as for the loss op, all parameters as variables, then (smoothing_prior
stays the last one):

loss_grads: `[...]`, the weight of each loss in what is minimized.
hyperparameters: `[4]`: the learning rate (of adam, with the correction of its
  averages' bias), beta_1 (of rmsprop, the momentum), beta_2 (of rmsprop, rho),
  epsilon. Or `[7]`: then also what weights, biases and vectors lose before the
  step as a share of themselves, the learning rate times a weight decay.
seed: scalar, of stochastic_rounding; another one for each step.
weight_slots: variables of the rule: none for sgd, one for adagrad and lion, two
  for adam (mean and mean square), for rmsprop the mean square, then the momentum
  and then the mean, if it has them, `[rows, width]`; one for rowwise_adagrad,
  `[rows]`.
bias_slots: the same for biases, `[rows]`.
loss: `[...]`; 0 for an ignored label.
input_grads: `[..., width]`, the gradient of that sum by the inputs; empty
  without with_gradients.
rule: of the rmsprop rules, GPUs have the one without options.
stochastic_rounding: of bfloat16 parameters; else to nearest even.
)doc");

const OpRegistration label_tree_train_step("TfHsmLabelTreeTrainStep",
                                           On::kVariables, DefineTrainStep,
                                           TrainStepShape<BatchOf::kLabelSets>,
                                           R"doc(
ResourceTfHsmTrainStep of a label tree: the loss is that of TfHsmLabelTreeLoss.

Inputs and outputs as for ResourceTfHsmTrainStep, but for the labels; the rows of
every visited group are updated.

labels: as for TfHsmLabelTreeLoss.
)doc");

absl::Status LossStepShape(InferenceContext* c, bool) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadParameters(c, /*is_handle=*/true, &s));
  ++s.next;  // loss_grads
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s.next++), 0, &scalar));
  TF_RETURN_IF_ERROR(ReadNumbers(c, &s));
  return c->WithRank(c->input(c->num_inputs() - 1), 0, &scalar);
}

const OpRegistration loss_step(
    "TfHsmLossStep", On::kVariables,
    [](OpDefinition* op) {
      DefineUpdate(op->Input("biases: BiasTypes")
                       .Input("loss_grads: Taccumulator")
                       .Input("state: variant"))
          .Input("moved: bool");
      DefineStepAttrs(DefineParameterAttrs(*op));
    },
    LossStepShape, R"doc(
One step of an optimizer in place, from the state that a loss op has kept.

Computes the gradient of ResourceTfHsmLossGrad and applies an update rule with it
to the touched rows, but never stores the gradient. The state holds labels,
inputs, tree and options of the loss, and may serve several steps. The op holds
the exclusive locks of all variables. An op that fails changes no variable.

weights: the variable `[rows, width]` of the loss op.
biases: nothing, or the variable `[rows]` of the loss op.
loss_grads: `[...]`, the shape of the losses: the gradient of the total by each
  loss.
state: the output of ResourceTfHsmLoss or ResourceTfHsmLabelTreeLoss.
hyperparameters: as for ResourceTfHsmTrainStep.
seed: as for ResourceTfHsmTrainStep.
weight_slots: as for ResourceTfHsmTrainStep.
bias_slots: as for ResourceTfHsmTrainStep.
moved: scalar, in host memory: whether the parameters have changed since the
  loss. If so, the op first runs the forward again, without input_grads, and
  steps by the gradient at the present parameters.
rule: as for ResourceTfHsmTrainStep.
stochastic_rounding: as for ResourceTfHsmTrainStep.
)doc");

absl::Status EmbeddingTrainStepShape(InferenceContext* c, bool) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadStep(c, BatchOf::kIndices, &s));
  for (const char* name : {"num_weight_slots", "num_bias_slots"}) {
    int num_slots = 0;
    TF_RETURN_IF_ERROR(c->GetAttr(name, &num_slots));
    s.next += num_slots;
  }
  ShapeHandle vectors;
  TF_RETURN_IF_ERROR(c->WithRank(ParameterShape(c, s.next, true), 2, &vectors));
  return c->Merge(s.width, c->Dim(vectors, 1), &s.width);
}

const OpRegistration embedding_train_step(
    "TfHsmEmbeddingTrainStep", On::kVariables,
    [](OpDefinition* op) {
      op->Input("biases: BiasTypes")
          .Input("labels: Tlabels")
          .Input("indices: Tindices");
      DefineStep(DefineTree(*op))
          .Input("vectors: resource")
          .Input("vector_slots: num_weight_slots * resource")
          .Input("splits: num_splits * int64")
          .Input("index_weights: num_index_weights * Taccumulator")
          .Output("loss: Taccumulator");
      DefineBatchAttrs(*op)
          .Attr("Tindices: {int32, int64}")
          .Attr("num_splits: int >= 0 = 0")
          .Attr("num_index_weights: int >= 0 = 0")
          .Attr("combiner: {'sum', 'mean'} = 'sum'");
      DefineSoftmax(op);
      DefineStepAttrs(*op);
    },
    EmbeddingTrainStepShape, R"doc(
ResourceTfHsmTrainStep of inputs that are rows of a variable, updated as well.

The inputs of a label are vectors[its index], or the sum or mean of those of its
bag of indices. The gradients of one vector are summed in the depth-first order
of their labels' leaves. Neither inputs nor gradients leave the op.

Inputs as for ResourceTfHsmTrainStep, but, instead of inputs and input_grads:

indices: `[...]`, of the shape of the labels, each in [0, count); those of
  ignored labels update nothing.
vectors: a variable `[count, width]` of the weights' type.
vector_slots: variables of the rule, as weight_slots: `[count, width]` or
  `[count]`.
splits: nothing, or `[labels + 1]`: label i has the bag of indices `[n]` from
  splits[i] to splits[i + 1] - 1; ascending from 0 to n.
index_weights: nothing, or `[n]`, what each vector is multiplied by in its bag.
combiner: of bags; a mean is the sum divided by that of the weights, or 0.
)doc");

}  // namespace
}  // namespace tf_hsm
