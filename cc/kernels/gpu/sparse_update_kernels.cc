// The step of an optimizer on some rows of a variable, on a GPU.
//
// An index out of range is left out: to raise, the host would have to wait for
// the device.

#include "cc/cuda/api/sparse_update.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/sparse_update_arguments.h"
#include "cc/kernels/gpu/device.h"
#include "cc/kernels/gpu/register.h"

namespace tf_hsm::gpu {
namespace {

template <typename T>
struct SparseUpdateOp : SparseUpdateAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    SparseUpdateArguments in;
    TF_RETURN_IF_ERROR(CheckStream(context));
    TF_RETURN_IF_ERROR(in.Read(context, *this, kDataType<T>, kDataType<A>));
    DeviceUpdate<T> update;
    in.SetParameters(*this, &update);
    update.hyper = in.numbers.hyper;
    update.seed = in.numbers.seed;
    update.decays = in.numbers.decays;
    const SparseGradient<T> gradient = {
        in.indices->data(),
        in.indices->dtype() == tensorflow::DT_INT64,
        in.count,
        Data<const A>(*in.values),
        in.weights->dim_size(0),
        in.width};
    DeviceMemory scratch;
    TF_RETURN_IF_ERROR(scratch.Allocate(
        context, SparseUpdateBytes(gradient.count, gradient.num_rows)));
    return StatusOf(
        SparseUpdate(gradient, update, scratch.data(), StreamOf(context)));
  }
};

const KernelRegistration<SparseUpdateOp> sparse_update(kGpu,
                                                       "TfHsmSparseUpdate");

}  // namespace
}  // namespace tf_hsm::gpu
