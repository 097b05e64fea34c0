// The ops that use a trained tree: their signatures, shapes and documentation.

#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {
namespace {

using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// What every op that goes down a tree begins with.
struct Signature {
  ShapeHandle batch;
  ShapeHandle inputs;
  DimensionHandle rows;
  DimensionHandle groups;
  DimensionHandle classes;
  int next = 0;  // the first input after these
};

absl::Status ReadSignature(InferenceContext* c, bool is_handle, Signature* s) {
  tf_hsm::Parameters parameters;
  TF_RETURN_IF_ERROR(tf_hsm::ReadParameters(c, is_handle, &parameters));
  int next = parameters.next;
  DimensionHandle width;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(next++), 1, &s->inputs));
  TF_RETURN_IF_ERROR(c->Merge(parameters.width, c->Dim(s->inputs, -1), &width));
  TF_RETURN_IF_ERROR(c->Subshape(s->inputs, 0, -1, &s->batch));
  TF_RETURN_IF_ERROR(c->Concatenate(s->batch, c->Vector(width), &s->inputs));
  ShapeHandle offsets, below;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &offsets));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(next++), 1, &below));
  TF_RETURN_IF_ERROR(c->Merge(parameters.rows, c->Dim(below, 0), &s->rows));
  s->groups = s->classes = c->UnknownDim();
  const DimensionHandle ends = c->Dim(offsets, 0);
  if (c->ValueKnown(ends)) {
    if (c->Value(ends) < 2) {
      return absl::InvalidArgumentError(
          "group_offsets must have at least 2 values");
    }
    TF_RETURN_IF_ERROR(c->Subtract(ends, 1, &s->groups));
    if (c->ValueKnown(s->rows) && c->Value(s->rows) >= c->Value(s->groups)) {
      TF_RETURN_IF_ERROR(
          c->Subtract(s->rows, c->Value(s->groups) - 1, &s->classes));
    }
  }
  s->next = next;
  return absl::OkStatus();
}

absl::Status Append(InferenceContext* c, ShapeHandle batch,
                    DimensionHandle size, ShapeHandle* shape) {
  return c->Concatenate(batch, c->Vector(size), shape);
}

// The batch's shape and a dimension whose size is the scalar `input`.
absl::Status AppendInput(InferenceContext* c, ShapeHandle batch, int input,
                         ShapeHandle* shape) {
  DimensionHandle size;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(input, &size));
  return Append(c, batch, size, shape);
}

template <bool is_handle>
absl::Status LogProbsShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  bool of_nodes;
  TF_RETURN_IF_ERROR(c->GetAttr("of_nodes", &of_nodes));
  ShapeHandle log_probs, groups;
  TF_RETURN_IF_ERROR(
      Append(c, s.batch, of_nodes ? s.rows : s.classes, &log_probs));
  TF_RETURN_IF_ERROR(Append(c, s.batch, s.groups, &groups));
  c->set_output(0, log_probs);
  c->set_output(1, groups);
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status LogProbsGradShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  c->set_output(0, s.inputs);
  c->set_output(1, c->Matrix(c->UnknownDim(), s.rows));
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status TopKShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  ShapeHandle best;
  TF_RETURN_IF_ERROR(AppendInput(c, s.batch, s.next, &best));
  c->set_output(0, best);
  c->set_output(1, best);
  c->set_output(2, s.batch);
  c->set_output(3, s.batch);
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status SampleShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  ShapeHandle classes;
  TF_RETURN_IF_ERROR(AppendInput(c, s.batch, s.next, &classes));
  c->set_output(0, classes);
  return absl::OkStatus();
}

template <bool is_handle>
absl::Status ClassLogProbsShape(InferenceContext* c) {
  Signature s;
  TF_RETURN_IF_ERROR(ReadSignature(c, is_handle, &s));
  ShapeHandle classes, wanted;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(s.next + 3), 1, &classes));
  TF_RETURN_IF_ERROR(Append(c, s.batch, c->Dim(classes, -1), &wanted));
  TF_RETURN_IF_ERROR(c->Merge(classes, wanted, &classes));
  c->set_output(0, classes);
  return absl::OkStatus();
}

}  // namespace

#define TF_HSM_INPUTS                                   \
  Input("biases: BiasTypes")                            \
      .Input("inputs: Tinputs")                         \
      .Input("group_offsets: int64")                    \
      .Input("row_below: int64")                        \
      .Attr("BiasTypes: list(type) >= 0")               \
      .Attr("T: {float, bfloat16, half, double}")       \
      .Attr("Tinputs: {float, bfloat16, half, double}") \
      .Attr("Taccumulator: {float, double}")

// An op on tensors and the same on variables. `rest` is what follows
// TF_HSM_INPUTS.
#define TF_HSM_REGISTER_BOTH(name, rest, shape, doc) \
  REGISTER_OP(name)                                  \
      .Input("weights: T")                           \
      .TF_HSM_INPUTS.rest.SetShapeFn(shape<false>)   \
      .Doc(doc);                                     \
  REGISTER_OP("Resource" name)                       \
      .Input("weights: resource")                    \
      .TF_HSM_INPUTS.rest.SetIsStateful()            \
      .SetShapeFn(shape<true>)                       \
      .Doc(doc)

#define TF_HSM_LOG_PROBS                       \
  Output("log_probs: Taccumulator")            \
      .Output("group_log_probs: Taccumulator") \
      .Attr("of_nodes: bool = false")

#define TF_HSM_LOG_PROBS_GRAD                 \
  Input("log_probs: Taccumulator")            \
      .Input("group_log_probs: Taccumulator") \
      .Input("grads: Taccumulator")           \
      .Output("input_grads: Taccumulator")    \
      .Output("logit_grads: Taccumulator")    \
      .Attr("of_nodes: bool = false")

#define TF_HSM_TOP_K                     \
  Input("k: int64")                      \
      .Input("beam_width: int64")        \
      .Output("log_probs: Taccumulator") \
      .Output("classes: int64")          \
      .Output("num_pruned: int64")       \
      .Output("best_class: int64")

#define TF_HSM_SAMPLE               \
  Input("num_samples: int64")       \
      .Input("seed: int64")         \
      .Input("temperature: double") \
      .Input("top_k: int64")        \
      .Input("top_p: double")       \
      .Output("classes: int64")

#define TF_HSM_CLASS_LOG_PROBS           \
  Input("group_parents: int64")          \
      .Input("class_rows: int64")        \
      .Input("row_groups: int64")        \
      .Input("classes: Tclasses")        \
      .Output("log_probs: Taccumulator") \
      .Attr("Tclasses: {int32, int64}")

namespace {

constexpr char kLogProbsDoc[] = R"doc(
The log-probabilities of all classes, or of all nodes, in nats.

weights: `[rows, width]`; a tensor, or the handle of a variable, whose shared
  lock is held while the op runs and which is never copied.
biases: nothing, or one `[rows]` tensor or variable handle.
inputs: `[..., width]`.
group_offsets: `[groups + 1]`; group g owns rows [offsets[g], offsets[g + 1]).
row_below: `[rows]`, the group below each row, or -1 - class of a leaf.
log_probs: `[..., classes]`; of each row, `[..., rows]`, with of_nodes.
group_log_probs: `[..., groups]`, of the row above each group; 0 for the root's.
)doc";

constexpr char kLogProbsGradDoc[] = R"doc(
The gradient of TfHsmLogProbs.

Inputs as for that op, then what it made, and:

grads: the gradient of the total by each of log_probs.
input_grads: `[..., width]`, its gradient by inputs.
logit_grads: `[examples, rows]`, by each row's logit.
)doc";

constexpr char kTopKDoc[] = R"doc(
The k most probable classes, best first; equal ones in the order of classes.

Inputs as for TfHsmLogProbs, then:

k: scalar, in [1, classes].
beam_width: scalar; 0 for the exact answer, or how many nodes of a level are
  opened at most.
log_probs: `[..., k]`, in nats.
classes: `[..., k]`.
num_pruned: `[...]`, how many nodes a beam left out that could hold a better
  class: with 0 the answer is exact.
best_class: `[...]`, the first of classes.
)doc";

constexpr char kSampleDoc[] = R"doc(
Classes drawn by their probabilities.

Inputs as for TfHsmLogProbs, then:

num_samples: scalar.
seed: `[2]`; the same seed gives the same draws.
temperature: scalar; divides all logits, or, with top_k or top_p, the
  log-probabilities of the classes that these leave.
top_k: scalar; draws are among the k best classes; 0: among all.
top_p: scalar, in (0, 1]; draws are among the fewest best classes whose
  probabilities reach this sum.
classes: `[..., num_samples]`; -1 where the probabilities are NaN.
)doc";

constexpr char kClassLogProbsDoc[] = R"doc(
The log-probabilities of given classes, in nats.

Inputs as for TfHsmLogProbs, then:

group_parents: `[groups]`, the row above each group, -1 for the root's.
class_rows: `[classes]`, the leaf of each class.
row_groups: `[rows]`, the group of each row.
classes: `[..., count]`, those wanted of each example.
log_probs: `[..., count]`.
)doc";

}  // namespace

TF_HSM_REGISTER_BOTH("TfHsmLogProbs", TF_HSM_LOG_PROBS, LogProbsShape,
                     kLogProbsDoc);
TF_HSM_REGISTER_BOTH("TfHsmLogProbsGrad", TF_HSM_LOG_PROBS_GRAD,
                     LogProbsGradShape, kLogProbsGradDoc);
TF_HSM_REGISTER_BOTH("TfHsmTopK", TF_HSM_TOP_K, TopKShape, kTopKDoc);
TF_HSM_REGISTER_BOTH("TfHsmSample", TF_HSM_SAMPLE, SampleShape, kSampleDoc);
TF_HSM_REGISTER_BOTH("TfHsmClassLogProbs", TF_HSM_CLASS_LOG_PROBS,
                     ClassLogProbsShape, kClassLogProbsDoc);

}  // namespace tensorflow
