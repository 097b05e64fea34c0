// The ops that use a trained tree: their signatures, shapes and documentation.

#include "absl/strings/str_cat.h"
#include "cc/ops/op.h"

namespace tf_hsm {
namespace {

// Merges the shape of the op's input list `name`, of at most one, into `shape`.
absl::Status MergeOptional(InferenceContext* c, const char* name,
                           ShapeHandle* shape, int* next) {
  std::vector<ShapeHandle> given;
  TF_RETURN_IF_ERROR(c->input(name, &given));
  if (given.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": at most one"));
  }
  if (given.empty()) return absl::OkStatus();
  ++*next;
  return c->Merge(*shape, given[0], shape);
}

// Reads what every op that goes down a tree begins with.
absl::Status ReadSignature(InferenceContext* c, bool is_handle, Signature* s) {
  TF_RETURN_IF_ERROR(ReadParameters(c, is_handle, s));
  TF_RETURN_IF_ERROR(ReadPinned(c, s));
  std::vector<tensorflow::DataType> scales;
  TF_RETURN_IF_ERROR(c->GetAttr("ScaleTypes", &scales));
  if (!scales.empty()) s->width = c->UnknownDim();  // codes may be narrower
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(s->next++), 1, &s->inputs));
  TF_RETURN_IF_ERROR(c->Merge(s->width, c->Dim(s->inputs, -1), &s->width));
  TF_RETURN_IF_ERROR(c->Subshape(s->inputs, 0, -1, &s->batch));
  TF_RETURN_IF_ERROR(c->Concatenate(s->batch, c->Vector(s->width), &s->inputs));
  ShapeHandle offsets, below, roots, of_roots;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s->next++), 1, &offsets));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(s->next++), 1, &below));
  TF_RETURN_IF_ERROR(c->Merge(s->rows, c->Dim(below, 0), &s->rows));
  int num_root_groups;
  TF_RETURN_IF_ERROR(c->GetAttr("num_root_groups", &num_root_groups));
  roots = c->Vector(num_root_groups == 0 ? c->MakeDim(1) : c->UnknownDim());
  TF_RETURN_IF_ERROR(MergeOptional(c, "root_groups", &roots, &s->next));
  s->roots = c->Dim(roots, 0);
  TF_RETURN_IF_ERROR(c->Concatenate(s->batch, c->Vector(s->roots), &of_roots));
  TF_RETURN_IF_ERROR(MergeOptional(c, "root_log_probs", &of_roots, &s->next));
  s->next += static_cast<int>(scales.size());
  s->groups = s->classes = c->UnknownDim();
  const DimensionHandle ends = c->Dim(offsets, 0);
  if (!c->ValueKnown(ends)) return absl::OkStatus();
  if (c->Value(ends) < 2) {
    return absl::InvalidArgumentError(
        "group_offsets must have at least 2 values");
  }
  TF_RETURN_IF_ERROR(c->Subtract(ends, 1, &s->groups));
  TF_RETURN_IF_ERROR(MergeGroups(c, s->groups, s));
  if (c->ValueKnown(s->rows) && c->ValueKnown(s->roots) &&
      c->Value(s->rows) >= c->Value(s->groups) &&
      c->Value(s->groups) >= c->Value(s->roots)) {
    TF_RETURN_IF_ERROR(c->Subtract(
        s->rows, c->Value(s->groups) - c->Value(s->roots), &s->classes));
  }
  return absl::OkStatus();
}

OpDefinition& DefineInputs(OpDefinition* op) {
  return op->Input("biases: BiasTypes")
      .Input("inputs: Tinputs")
      .Input("group_offsets: int64")
      .Input("row_below: int64")
      .Input("root_groups: num_root_groups * int64")
      .Input("root_log_probs: RootTypes")
      .Input("scales: ScaleTypes")
      .Attr("BiasTypes: list(type) >= 0")
      // Graphs of an earlier version have none of these three inputs.
      .Attr("num_root_groups: int >= 0 = 0")
      .Attr("RootTypes: list({float, double}) >= 0 = []")
      .Attr("ScaleTypes: list({float, resource}) >= 0 = []")
      .Attr(kPinnedAttr)
      .Attr(kSoftCapAttr)
      .Attr(ElementTypeAttr("T"))
      .Attr(ElementTypeAttr("Tinputs"))
      .Attr("Taccumulator: {float, double}");
}

// Sets an output of the batch's shape and one more dimension.
absl::Status SetOutput(InferenceContext* c, int output, ShapeHandle batch,
                       DimensionHandle size) {
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->Concatenate(batch, c->Vector(size), &shape));
  c->set_output(output, shape);
  return absl::OkStatus();
}

absl::Status LogProbsShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  bool of_nodes;
  TF_RETURN_IF_ERROR(c->GetAttr("of_nodes", &of_nodes));
  TF_RETURN_IF_ERROR(SetOutput(c, 0, s.batch, of_nodes ? s.rows : s.classes));
  return SetOutput(c, 1, s.batch, s.groups);
}

const OpRegistration log_probs(
    "TfHsmLogProbs", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Output("log_probs: Taccumulator")
          .Output("group_log_probs: Taccumulator")
          .Attr("of_nodes: bool = false");
    },
    LogProbsShape, R"doc(
The log-probabilities of all classes, or of all nodes, in nats.

weights: as for TfHsmLoss.
biases: as for TfHsmLoss.
inputs: `[..., width]`.
group_offsets: as for TfHsmLoss.
row_below: `[rows]`, the group below each row, or -1 - class of a leaf.
root_groups: nothing, for a tree, or one `[roots]` tensor: the first group of
  each tree of a forest, ascending from 0. There are rows - groups + roots
  classes.
root_log_probs: nothing, or one `[..., roots]` tensor of the type of log_probs:
  the log-probability of each root, which is added to those below it; else 0.
scales: nothing; or, for weights that are the handle of a variable of codes,
  one `[rows, blocks]` float32 tensor or variable handle. The codes are int8
  `[rows, width]`, or uint8 `[rows, (width + 1) / 2]` with two codes each
  (cc/core/base/quantized_rows.h). There is one block, or one for each 64
  columns. On the CPU only, and without gradients.
log_probs: `[..., classes]`; of each row, `[..., rows]`, with of_nodes.
group_log_probs: `[..., groups]`, of the row above each group; for the group of
  a root, the root's.
pinned: as for TfHsmLoss.
logit_soft_cap: as for TfHsmLoss.
)doc");

absl::Status LogProbsGradShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  c->set_output(0, s.inputs);
  c->set_output(1, c->Matrix(c->UnknownDim(), s.weight_rows));
  return SetOutput(c, 2, s.batch, s.roots);
}

const OpRegistration log_probs_grad(
    "TfHsmLogProbsGrad", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Input("log_probs: Taccumulator")
          .Input("group_log_probs: Taccumulator")
          .Input("grads: Taccumulator")
          .Output("input_grads: Taccumulator")
          .Output("logit_grads: Taccumulator")
          .Output("root_grads: Taccumulator")
          .Attr("of_nodes: bool = false");
    },
    LogProbsGradShape, R"doc(
The gradient of TfHsmLogProbs.

Inputs as for that op, then what it made, and:

grads: the gradient of the total by each of log_probs.
input_grads: `[..., width]`, its gradient by inputs.
logit_grads: `[examples, rows]`, by each row's logit; of a pinned tree
  `[examples, groups]`, by those of the rows that have weights.
root_grads: `[..., roots]`, by the log-probability of each root.
)doc");

absl::Status TopKShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  DimensionHandle k;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(s.next, &k));
  s.next += 2;
  TF_RETURN_IF_ERROR(MergeOptional(c, "bounds", &s.batch, &s.next));
  ShapeHandle spans = c->Matrix(s.rows, 2);
  ShapeHandle ranks = c->Vector(c->UnknownDim());
  ShapeHandle splits = c->Vector(c->UnknownDim());
  TF_RETURN_IF_ERROR(MergeOptional(c, "row_spans", &spans, &s.next));
  TF_RETURN_IF_ERROR(MergeOptional(c, "allowed_ranks", &ranks, &s.next));
  TF_RETURN_IF_ERROR(MergeOptional(c, "allowed_splits", &splits, &s.next));
  TF_RETURN_IF_ERROR(SetOutput(c, 0, s.batch, k));
  TF_RETURN_IF_ERROR(SetOutput(c, 1, s.batch, k));
  c->set_output(2, s.batch);
  c->set_output(3, s.batch);
  return absl::OkStatus();
}

const OpRegistration top_k(
    "TfHsmTopK", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Attr("has_sigmoids: bool = false")
          .Input("k: int64")
          .Input("beam_width: int64")
          .Input("bounds: BoundTypes")
          .Input("row_spans: num_masks * int64")
          .Input("allowed_ranks: num_masks * int64")
          .Input("allowed_splits: num_masks * int64")
          .Output("log_probs: Taccumulator")
          .Output("classes: int64")
          .Output("num_pruned: int64")
          .Output("best_class: int64")
          .Attr("BoundTypes: list({float, double}) >= 0 = []")
          .Attr("num_masks: int >= 0 = 0");
    },
    TopKShape, R"doc(
The k most probable classes, best first; equal ones in the order of classes.

Inputs as for TfHsmLogProbs, then:

k: scalar, in [1, classes].
beam_width: scalar; 0 for the exact answer, or how many nodes of a level are
  opened at most.
bounds: nothing, or one `[...]` tensor of the type of log_probs: classes with a
  smaller log-probability are not wanted, and no node of minus infinity is
  opened. Where fewer than k classes are left, the others have the
  log-probability minus infinity and the class -1.
row_spans: nothing; or, beside allowed_ranks and allowed_splits, one `[rows, 2]`
  tensor: the depth-first ranks of the classes at or below each row, from the
  first to one past the last.
allowed_ranks: nothing; or one `[n]` tensor, the ranks of the classes that may be
  found, ascending in each list. Where they are fewer than k, the others are as
  with bounds.
allowed_splits: nothing; or one tensor: list i has the ranks [splits[i],
  splits[i + 1]). There is one list for each example, or one for all.
log_probs: `[..., k]`, in nats.
classes: `[..., k]`.
num_pruned: `[...]`, how many nodes a beam left out that could hold a better
  class: with 0 the answer is exact.
best_class: `[...]`, the first of classes.
has_sigmoids: whether this is a label tree, each row of which has a sigmoid, and
  not each group a softmax.
)doc");

absl::Status SampleShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  DimensionHandle num_samples;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(s.next, &num_samples));
  return SetOutput(c, 0, s.batch, num_samples);
}

const OpRegistration sample(
    "TfHsmSample", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Input("num_samples: int64")
          .Input("seed: int64")
          .Input("temperature: double")
          .Input("top_k: int64")
          .Input("top_p: double")
          .Output("classes: int64");
    },
    SampleShape, R"doc(
Classes drawn by their probabilities.

Inputs as for TfHsmLogProbs, then:

num_samples: scalar.
seed: `[2]`; the same seed gives the same draws.
temperature: scalar; divides all logits, or, with top_k or top_p, the
  log-probabilities of classes; 0: the best class.
top_k: scalar; draws are among the k best classes; 0: among all.
top_p: scalar, in (0, 1]; draws are among the fewest best classes whose
  p ** (1 / temperature) reach this share of their sum: over the k best classes,
  or without top_k over all, or over the 1,024 best where the temperature is not
  1.
classes: `[..., num_samples]`; -1 where the probabilities are NaN, or those of
  all roots zero. Roots are drawn by exp(root_log_probs), which several must
  have, relative to the sum and whatever the temperature.
)doc");

absl::Status ClassLogProbsShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  ShapeHandle classes, wanted;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(s.next + 3), 1, &classes));
  TF_RETURN_IF_ERROR(
      c->Concatenate(s.batch, c->Vector(c->Dim(classes, -1)), &wanted));
  TF_RETURN_IF_ERROR(c->Merge(classes, wanted, &classes));
  c->set_output(0, classes);
  return absl::OkStatus();
}

const OpRegistration class_log_probs(
    "TfHsmClassLogProbs", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Attr("has_sigmoids: bool = false")
          .Input("group_parents: int64")
          .Input("class_rows: int64")
          .Input("row_groups: int64")
          .Input("classes: Tclasses")
          .Output("log_probs: Taccumulator")
          .Attr("Tclasses: {int32, int64}");
    },
    ClassLogProbsShape, R"doc(
The log-probabilities of given classes, in nats.

Inputs as for TfHsmLogProbs, then:

group_parents: `[groups]`, the row above each group, -1 for a root's.
class_rows: `[classes]`, the leaf of each class; or all `[rows]`, for log-
  probabilities of nodes: `classes` are rows then.
row_groups: `[rows]`, the group of each row.
classes: `[..., count]`, those wanted of each example. With root_log_probs, -1
  stands for a class below none of the roots.
log_probs: `[..., count]`; minus infinity for the class -1.
has_sigmoids: as for TfHsmTopK.
)doc");

absl::Status LabelRanksShape(InferenceContext* c, bool is_handle) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  TF_RETURN_IF_ERROR(c->Merge(s.batch, c->input(s.next + 3), &s.batch));
  c->set_output(0, s.batch);
  return absl::OkStatus();
}

const OpRegistration label_ranks(
    "TfHsmLabelRanks", On::kTensorsAndVariables,
    [](OpDefinition* op) {
      DefineInputs(op)
          .Input("group_parents: int64")
          .Input("class_rows: int64")
          .Input("row_groups: int64")
          .Input("labels: int64")
          .Input("k: int64")
          .Output("ranks: int64");
    },
    LabelRanksShape, R"doc(
How many classes are more probable than each example's label, counted up to k.

Classes of one probability stand in the order of classes, as for TfHsmTopK: a
label of rank r is element r of its classes. It is an op of CPUs alone.

Inputs as for TfHsmLogProbs, then:

group_parents: as for TfHsmClassLogProbs.
class_rows: `[classes]`, the leaf of each class.
row_groups: as for TfHsmClassLogProbs.
labels: `[...]`, a class of each example; -1 stands for none.
k: scalar, in [1, classes].
ranks: `[...]`, in [0, k]. It is k where there is no label, and for a label
  whose log-probability is NaN or minus infinity.
)doc");

}  // namespace
}  // namespace tf_hsm
