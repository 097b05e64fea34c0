// The ops that make trees from training data.

#include "cc/ops/op.h"

namespace tf_hsm {
namespace {

REGISTER_OP("TfHsmCountKeys")
    .Input("keys: int64")
    .Input("known: int64")
    .Input("known_counts: int64")
    .Output("distinct: int64")
    .Output("counts: int64")
    .SetShapeFn(WithMemory([](InferenceContext* c) -> absl::Status {
      ShapeHandle one;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &one));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &one));
      TF_RETURN_IF_ERROR(c->Merge(one, c->input(2), &one));
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
      return absl::OkStatus();
    }))
    .Doc(R"doc(
Counts equal keys, and adds them to the counts that are known.

keys: `[n]`, any numbers in any order.
known: `[k]`, ascending, each key once.
known_counts: `[k]`. A sum that is too large wraps.
distinct: `[d]`, the keys and the known keys, ascending, each once.
counts: `[d]`.
)doc");

REGISTER_OP("TfHsmSparseProduct")
    .Input("splits: int64")
    .Input("indices: int32")
    .Input("values: float")
    .Input("dense: float")
    .Output("product: float")
    .Attr("squared: bool = false")
    .SetShapeFn(WithMemory([](InferenceContext* c) -> absl::Status {
      ShapeHandle splits, entries, dense;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &splits));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &entries));
      TF_RETURN_IF_ERROR(c->Merge(entries, c->input(2), &entries));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 2, &dense));
      bool squared;
      TF_RETURN_IF_ERROR(c->GetAttr("squared", &squared));
      DimensionHandle rows = c->Dim(dense, 0);
      if (!squared) {
        TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits, 0), 1, &rows));
      }
      c->set_output(0, c->Matrix(rows, c->Dim(dense, 1)));
      return absl::OkStatus();
    }))
    .Doc(R"doc(
The product of a sparse matrix `[rows, columns]`, or of its square, with a dense one.

The bits of the result do not depend on the number of threads.

splits: `[rows + 1]`: the entries splits[r] to splits[r + 1] are in row r.
indices: `[entries]`, the column of each entry.
values: `[entries]`.
dense: `[columns, width]`.
squared: whether the product is multiplied by the transpose of the matrix.
product: `[rows, width]`, or `[columns, width]` if squared.
)doc");

}  // namespace
}  // namespace tf_hsm
