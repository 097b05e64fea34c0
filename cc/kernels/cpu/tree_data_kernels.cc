// The op kernel that makes trees from training data.

#include <algorithm>
#include <cstdint>
#include <functional>

#include "cc/core/pairs/count_keys.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"

namespace tf_hsm {
namespace {

struct CountKeysOp : OpAttributes {
  absl::Status Run(OpKernelContext* context) const {
    const int64_t* keys;
    KeyCounts known;
    TF_RETURN_IF_ERROR(ReadVector(context, "keys", -1, "any number", &keys));
    TF_RETURN_IF_ERROR(
        ReadVector(context, "known", -1, "any number", &known.keys));
    known.size = context->input(1).NumElements();
    TF_RETURN_IF_ERROR(ReadVector(context, "known_counts", known.size,
                                  "one per known key", &known.counts));
    const int64_t* end = known.keys + known.size;
    const int64_t* bad =
        std::adjacent_find(known.keys, end, std::greater_equal<int64_t>());
    if (bad != end) {
      return InvalidArgument("known must ascend, but ", bad[1], " follows ",
                             bad[0], " at position ", bad + 1 - known.keys);
    }
    const Parallel parallel = PoolParallel(context);
    const KeyCounter counter(keys, context->input(0).NumElements(), known,
                             parallel);
    const TensorShape shape({counter.num_distinct()});
    Tensor *distinct, *counts;
    TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &distinct));
    TF_RETURN_IF_ERROR(context->allocate_output(1, shape, &counts));
    counter.Write(Data<int64_t>(*distinct), Data<int64_t>(*counts), parallel);
    return absl::OkStatus();
  }
};

const bool registered = RegisterOnCpu<CountKeysOp>("TfHsmCountKeys");

}  // namespace
}  // namespace tf_hsm
