// The op that tells which tf_hsm a process has loaded.

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tf_hsm {
namespace {

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

}  // namespace
}  // namespace tf_hsm
