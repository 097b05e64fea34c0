// The loss op on the CPU, for tensors and for variables; and its gradient,
// which is also that of label trees.

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/cpu/cpu_loss_state.h"
#include "cc/kernels/cpu/loss_batch.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {
namespace {

template <typename T>
struct LossOp : LossAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    const bool with_state = with_gradients && context->output_required(2);
    const bool in_chunks =
        with_state && TakesChunks<T>(in.plan, in.arguments.width);
    Tensor *loss, *dx, normalizers, probs;
    ForwardOutputs<T> outputs;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, in.arguments.batch_shape, &loss));
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, 1, in.arguments.DxShape(context, *this), &dx));
    if (with_state) {
      TF_RETURN_IF_ERROR(AllocateTemp(context,
                                      TensorShape({in.plan.num_passes, 2}),
                                      &normalizers, &outputs.normalizers));
    }
    if (with_state &&
        KeepsProbs<T>(in.plan, in.arguments.width, kMaxKeptBytes)) {
      TF_RETURN_IF_ERROR(AllocateTemp(context, TensorShape({in.plan.num_probs}),
                                      &probs, &outputs.probs));
    }
    SetZero(in.parallel, loss);
    if (AddsDx(in.plan, loss->NumElements())) SetZero(in.parallel, dx);
    outputs.loss = Data<A>(*loss);
    if (dx->NumElements() > 0) outputs.dx = Data<A>(*dx);
    std::unique_ptr<ReadyGradient> ready;
    if (in_chunks) {
      TF_RETURN_IF_ERROR(RunInChunks(context, in, outputs, &ready));
    } else {
      Forward<T>(in.problem, KernelTableFor<T>(ActiveIsa(nullptr)), in.parallel,
                 outputs);
    }
    std::shared_ptr<CpuLossState> state;
    if (with_state) {
      LabelPlan plan;
      plan.plan = std::move(in.plan);
      state = std::make_shared<CpuLossState>(
          in.arguments, *this, std::move(plan), in.packed, normalizers, probs);
      state->ready = std::move(ready);
    }
    return SetLossState(context, 2, std::move(state));
  }

  // Makes the gradient too, since most losses all weigh the same.
  static absl::Status RunInChunks(OpKernelContext* context,
                                  const LossBatch<T>& in,
                                  const ForwardOutputs<T>& outputs,
                                  std::unique_ptr<ReadyGradient>* ready) {
    const int64_t fanout = in.plan.nodes[0].fanout;
    const int64_t chunk = ChunkExamples<T>(in.plan);
    *ready = std::make_unique<ReadyGradient>();
    Tensor scratch;
    A* probs;
    GradientSums<A> sums;
    TF_RETURN_IF_ERROR(
        AllocateTemp(context, TensorShape({chunk * fanout}), &scratch, &probs));
    TF_RETURN_IF_ERROR(AllocateTemp(context,
                                    TensorShape({fanout, in.arguments.width}),
                                    &(*ready)->dw, &sums.dw));
    TF_RETURN_IF_ERROR(
        AllocateTemp(context, TensorShape({fanout}), &(*ready)->db, &sums.db));
    const std::vector<A> ones(in.plan.num_examples(), 1);
    BackwardArguments<T> arguments;
    arguments.loss_grads = ones.data();
    LossInChunks<T>(in.problem, KernelTableFor<T>(ActiveIsa(nullptr)),
                    in.parallel, outputs, arguments, chunk, probs, sums);
    return absl::OkStatus();
  }
};

template <typename T>
struct LossGradOp : OpAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    Parameters parameters;
    const LossState* any_state;
    const Tensor* loss_grads;
    TF_RETURN_IF_ERROR(parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(ReadLossState(context, StateOf::kCpu, parameters,
                                     &any_state, &loss_grads));
    const auto& state = static_cast<const CpuLossState&>(*any_state);
    const Plan& plan = state.plan();
    const int64_t width = parameters.weights().dim_size(1);
    const std::vector<A> sorted = InOrder(plan, Data<A>(*loss_grads));

    const TensorShape touched({plan.num_rows});
    Tensor *rows, *dw, *db;
    TF_RETURN_IF_ERROR(context->allocate_output(0, touched, &rows));
    TouchedRows(plan, Data<int64_t>(*rows));
    if (state.IsReady(sorted)) {
      return state.ready->SetOutputs<T>(context, sorted[0],
                                        PoolParallel(context));
    }
    TF_RETURN_IF_ERROR(
        AllocateOutput(context, 1, TensorShape({plan.num_rows, width}), &dw));
    TF_RETURN_IF_ERROR(context->allocate_output(2, touched, &db));
    const Problem<T> problem = state.ProblemOf<T>(parameters);
    BackwardArguments<T> arguments = state.BackwardOf<T>(sorted);
    arguments.dw = Data<T>(*dw);
    arguments.db = Data<T>(*db);
    Backward<T>(problem, KernelTableFor<T>(ActiveIsa(nullptr)),
                PoolParallel(context), arguments);
    return absl::OkStatus();
  }
};

const KernelRegistration<LossOp> loss(kCpu, "TfHsmLoss");
const KernelRegistration<LossGradOp> loss_grad(kCpu, "TfHsmLossGrad");

}  // namespace
}  // namespace tf_hsm
