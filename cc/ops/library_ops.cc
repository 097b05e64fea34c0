// The ops that tell what a process has loaded.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_hsm {
namespace {

using tensorflow::shape_inference::InferenceContext;

// Stateful, or else a graph would have the version of the process that
// optimizes it, and not of the one that runs it.
REGISTER_OP("TfHsmVersion")
    .Output("version: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The version of tf_hsm whose library runs the op.

Placed on a task of a cluster, it says whether the task has loaded the library,
and which one.

version: like "0.1.0".
)doc");

REGISTER_OP("TfHsmCpuIsa")
    .Output("name: string")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The instruction set that the CPU kernels run with.

name: one of "baseline", "avx2", "avx512", "amx".
)doc");

REGISTER_OP("TfHsmConstants")
    .Output("max_kept_bytes: int64")
    .Output("narrow_width: int64")
    .Output("max_narrow_bytes: int64")
    .Output("chunk_bytes: int64")
    .Output("padding: int64")
    .Output("max_open: int64")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
The constants that decide what the CPU kernels keep, for estimates.

max_kept_bytes: kMaxKeptBytes of cc/core/api/loss.h.
narrow_width: kNarrowWidth of cc/core/api/loss.h.
max_narrow_bytes: kMaxNarrowBytes of cc/core/api/loss.h.
chunk_bytes: kChunkBytes of cc/core/api/loss.h.
padding: kPadding of cc/core/base/types.h.
max_open: kMaxOpen of cc/core/api/example_search.h.
)doc");

}  // namespace
}  // namespace tf_hsm
