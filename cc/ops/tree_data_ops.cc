// The op that makes trees from training data.

#include "cc/ops/op.h"

namespace tf_hsm {
namespace {

REGISTER_OP("TfHsmCountKeys")
    .Input("keys: int64")
    .Input("known: int64")
    .Input("known_counts: int64")
    .Output("distinct: int64")
    .Output("counts: int64")
    .SetShapeFn(ShapeFunction([](InferenceContext* c) -> absl::Status {
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

}  // namespace
}  // namespace tf_hsm
