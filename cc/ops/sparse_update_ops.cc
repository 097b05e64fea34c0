// The op that updates rows of a variable in place.

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tensorflow {

REGISTER_OP("ResourceTfHsmSparseUpdate")
    .Input("weights: resource")
    .Input("slots: num_slots * resource")
    .Input("indices: Tindices")
    .Input("values: Taccumulator")
    .Input("hyperparameters: double")
    .Attr("T: {float, double, bfloat16, half}")
    .Attr("Taccumulator: {float, double}")
    .Attr("Tindices: {int32, int64}")
    .Attr("num_slots: int >= 0")
    .Attr("rule: {'sgd', 'adagrad', 'rowwise_adagrad', 'adam'}")
    .SetIsStateful()
    .SetShapeFn([](shape_inference::InferenceContext* context) {
      const int first = context->num_inputs() - 3;
      shape_inference::ShapeHandle indices, values;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(first), 1, &indices));
      TF_RETURN_IF_ERROR(
          context->WithRankAtLeast(context->input(first + 1), 1, &values));
      shape_inference::DimensionHandle count;
      return context->Merge(context->Dim(indices, 0), context->Dim(values, 0),
                            &count);
    })
    .Doc(R"doc(
One step of an optimizer on the rows of a variable that a gradient names.

Values of the same row are summed first, in their order. Holds the exclusive
locks of the variables meanwhile. The bits of the result do not depend on the
number of threads.

weights: a variable of type T, `[rows, ...]`.
slots: variables of the rule: none for sgd, one for adagrad, two for adam (mean
  and mean square), of the shape of the weights; one for rowwise_adagrad,
  `[rows]`.
indices: `[count]`, in any order, each in [0, rows).
values: `[count, ...]`, the gradient.
hyperparameters: `[4]`: the learning rate (of adam, with the correction of its
  averages' bias), beta_1, beta_2, epsilon.
)doc");

}  // namespace tensorflow
