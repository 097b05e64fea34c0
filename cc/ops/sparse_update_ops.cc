// The op of an optimizer on some rows of a variable.

#include "cc/ops/op.h"

namespace tf_hsm {
namespace {

absl::Status SparseUpdateShape(InferenceContext* c, bool) {
  const int first = c->num_inputs() - 4;
  ShapeHandle indices, values;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(first), 1, &indices));
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(first + 1), 1, &values));
  DimensionHandle count;
  return c->Merge(c->Dim(indices, 0), c->Dim(values, 0), &count);
}

const OpRegistration sparse_update(
    "TfHsmSparseUpdate", On::kVariables,
    [](OpDefinition* op) {
      op->Input("slots: num_slots * resource")
          .Input("indices: Tindices")
          .Input("values: Taccumulator")
          .Input("hyperparameters: double")
          .Input("seed: int64")
          .Attr(ElementTypeAttr("T"))
          .Attr("Taccumulator: {float, double}")
          .Attr("Tindices: {int32, int64}")
          .Attr("num_slots: int >= 0")
          .Attr(RuleAttr())
          .Attr("stochastic_rounding: bool = false");
    },
    SparseUpdateShape, R"doc(
One step of an optimizer on the rows of a variable that a gradient names.

Values of the same row are summed first, in their order. Holds the exclusive
locks of the variables meanwhile. The bits of the result do not depend on the
number of threads.

weights: a variable of type T, `[rows, ...]`.
slots: the weight_slots of ResourceTfHsmTrainStep, of the shape of the weights or,
  for rowwise_adagrad, `[rows]`.
indices: `[count]`, in any order, each in [0, rows). A GPU leaves out others.
values: `[count, ...]`, the gradient.
hyperparameters: the `[4]` of ResourceTfHsmTrainStep. Or `[5]`: then also what the
  rows lose before the step as a share of themselves, the learning rate times a
  weight decay.
seed: scalar, of stochastic_rounding; another one for each step.
stochastic_rounding: of bfloat16 weights; else to nearest even.
)doc");

}  // namespace
}  // namespace tf_hsm
