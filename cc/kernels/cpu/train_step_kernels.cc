// The training steps that update their variables in place, on the CPU.

#include <vector>

#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/cpu/loss_batch.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {
namespace {

// With `embeds`, the inputs are rows of a variable, which are updated too.
template <typename T, bool embeds>
struct AnyTrainStepOp : TrainStepAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LossBatch<T> in;
    std::vector<A> loss_grads;
    Update<T> update;
    const Parameters& parameters = in.arguments.parameters;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Write(
        context, kDataType<T>, kDataType<A>, rule, embeds));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    Plan& plan = in.plan;
    const int64_t width = in.arguments.width;
    PlanTraining(&plan, MaxPartials<T>(width));
    TF_RETURN_IF_ERROR(in.ReadLossGrads(context, &loss_grads));
    StepNumbers numbers;
    TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers));
    SetParameters(*this, parameters, &update);
    SetNumbers(numbers, &update);

    // If the sums of dx need no more memory than copies of inputs and dx do.
    const int64_t num_sums = in.vector_plan.num_sums;
    const bool in_place =
        embeds && ReadsVectors(plan) && num_sums <= 2 * plan.num_examples();
    if constexpr (embeds) {
      if (!in_place) TF_RETURN_IF_ERROR(in.PackVectors(context));
    }
    const bool in_chunks = TakesChunks<T>(plan, width);
    const bool with_probs =
        in_chunks || KeepsProbs<T>(plan, width, kMaxStepBytes);
    const int64_t num_probs =
        in_chunks ? ChunkExamples<T>(plan) * plan.nodes[0].fanout
                  : plan.num_probs;
    const int64_t num_sums_rows = in_chunks ? plan.nodes[0].fanout : 0;
    Tensor *loss, dx, kept, partials, dw, db;
    GradientSums<A> sums;
    ForwardOutputs<T> outputs;
    BackwardArguments<T> arguments;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, in.arguments.batch_shape, &loss));
    const int64_t dx_rows = in_place ? num_sums : plan.num_examples();
    TF_RETURN_IF_ERROR(AllocateDx(context, in, dx_rows, &dx));
    TF_RETURN_IF_ERROR(
        with_probs ? AllocateTemp(context, TensorShape({num_probs}), &kept,
                                  &outputs.probs)
                   : AllocateTemp(context, TensorShape({plan.num_passes, 2}),
                                  &kept, &outputs.normalizers));
    TF_RETURN_IF_ERROR(AllocateTemp(
        context, TensorShape({plan.num_partials, PartialStride(width)}),
        &partials, &arguments.partials));
    TF_RETURN_IF_ERROR(AllocateTemp(
        context, TensorShape({num_sums_rows, width}), &dw, &sums.dw));
    TF_RETURN_IF_ERROR(
        AllocateTemp(context, TensorShape({num_sums_rows}), &db, &sums.db));
    SetZero(in.parallel, loss);
    const int64_t batch = embeds ? plan.num_examples() : loss->NumElements();
    outputs.loss = Data<A>(*loss);
    Update<T> of_vectors;
    if constexpr (embeds) {
      of_vectors = UpdateOfVectors(update, numbers, parameters);
    }
    if (in_place) {
      in.ReadVectorsInPlace(&of_vectors, Data<A>(dx));
    } else {
      if (AddsDx(plan, batch)) SetZero(in.parallel, &dx);
      if (dx.NumElements() > 0) outputs.dx = Data<A>(dx);
      outputs.dx_is_sorted = embeds;
    }
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = outputs.normalizers;
    arguments.probs = outputs.probs;
    arguments.update = &update;
    // From here on nothing needs memory once a row has changed.
    const auto& table = KernelTableFor<T>(ActiveIsa(nullptr));
    const StepMemory<T> memory(plan, width, table);
    const Parallel parallel =
        PoolParallel(context, [memory] { memory.Reserve(); });
    if (in_chunks) {
      outputs.dx_factors = arguments.loss_grads;
      LossInChunks<T>(in.problem, table, parallel, outputs, arguments,
                      ChunkExamples<T>(plan), outputs.probs, sums);
    } else {
      TrainStep<T>(in.problem, table, parallel, outputs, arguments);
    }
    if constexpr (embeds) {
      const auto& rows = in_place ? in.vector_plan.shared : in.vector_rows;
      SparseGradient<T> gradient = {rows.data(), Data<A>(dx),
                                    static_cast<int64_t>(rows.size()), width};
      gradient.stride = Padded(width);
      if (!in_place && in.arguments.splits != nullptr) {
        gradient.places = in.bag_of.data();
        gradient.factors = in.bags.factors.data();
      }
      SparseUpdate<T>(of_vectors, gradient, parallel);
    }
    return absl::OkStatus();
  }

  // [rows, Padded(width)], of vectors that are updated; otherwise the op's
  // output.
  absl::Status AllocateDx(OpKernelContext* context, const LossBatch<T>& in,
                          int64_t rows, Tensor* dx) const {
    if constexpr (embeds) {
      return AllocateTemp(context, kDataType<A>,
                          TensorShape({rows, Padded(in.arguments.width)}), dx);
    } else {
      Tensor* output;
      TF_RETURN_IF_ERROR(AllocateOutput(
          context, 1, in.arguments.DxShape(context, *this), &output));
      *dx = *output;
      return absl::OkStatus();
    }
  }
};

template <typename T>
using TrainStepOp = AnyTrainStepOp<T, false>;
template <typename T>
using EmbeddingTrainStepOp = AnyTrainStepOp<T, true>;

const KernelRegistration<TrainStepOp> train_step(kCpu, "TfHsmTrainStep");
const KernelRegistration<EmbeddingTrainStepOp> embedding_train_step(
    kCpu, "TfHsmEmbeddingTrainStep");

}  // namespace
}  // namespace tf_hsm
