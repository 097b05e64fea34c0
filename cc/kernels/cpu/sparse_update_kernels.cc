// The step of an optimizer on some rows of a variable, on the CPU.

#include <vector>

#include "cc/core/api/sparse_update.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/common/sparse_update_arguments.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {
namespace {

template <typename T>
struct SparseUpdateOp : SparseUpdateAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    SparseUpdateArguments in;
    std::vector<int64_t> indices;
    TF_RETURN_IF_ERROR(in.Read(context, *this, kDataType<T>, kDataType<A>));
    TF_RETURN_IF_ERROR(
        ReadIndices(*in.indices, in.weights->dim_size(0), &indices));
    PreferHugePages(*in.weights);
    PreferHugePages(in.slots);
    Update<T> update;
    in.SetParameters(*this, &update);
    update.hyper = *in.numbers.hyper;
    update.seed = *in.numbers.seed;
    if (in.numbers.decays != nullptr) update.decay = *in.numbers.decays;
    const std::vector<KeyAndIndex> rows = SortRows(indices.data(), in.count);
    SparseGradient<T> gradient;
    gradient.rows = rows.data();
    gradient.values = Data<A>(*in.values);
    gradient.count = in.count;
    const int64_t width = gradient.width = in.width;
    SparseUpdate<T>(update, gradient, PoolParallel(context, [width] {
                      ReserveSparseUpdate<T>(width);
                    }));
    return absl::OkStatus();
  }
};

const KernelRegistration<SparseUpdateOp> sparse_update(kCpu,
                                                       "TfHsmSparseUpdate");

}  // namespace
}  // namespace tf_hsm
