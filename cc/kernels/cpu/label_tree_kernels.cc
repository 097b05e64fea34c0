// Loss and training step of label trees on the CPU, for tensors and for
// variables. The gradient is that of the loss op (loss_kernels.cc).

#include <memory>
#include <utility>
#include <vector>

#include "cc/core/api/label_tree.h"
#include "cc/core/api/loss.h"
#include "cc/core/base/isa.h"
#include "cc/core/plan/label_plan.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/loss_state.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/cpu/cpu_loss_state.h"
#include "cc/kernels/cpu/loss_batch.h"
#include "cc/kernels/cpu/pack_inputs.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {
namespace {

// Arguments, the plan of the label sets, the inputs of the visits, and the
// memory of what the forward makes.
template <typename T>
class LabelTreeBatch {
 public:
  using A = Accumulator<T>;

  // After arguments.parameters are read or written.
  absl::Status Prepare(OpKernelContext* context,
                       const LossAttributes& attributes) {
    parallel_ = PoolParallel(context);
    TF_RETURN_IF_ERROR(
        arguments.Read(context, attributes, /*label_sets=*/true));
    PreferHugePages(arguments.parameters);
    std::vector<int64_t> labels;
    CopyIntegers(*arguments.labels, &labels);
    TF_RETURN_IF_ERROR(StatusOf(MakeLabelPlan(
        arguments.tree, labels.data(), arguments.batch_shape.num_elements(),
        arguments.num_labels, attributes.ignored, parallel_, &plan)));
    TF_RETURN_IF_ERROR(PackTensor<A>(
        context, *arguments.inputs, plan.plan.order.data(), plan.num_visits(),
        arguments.width, parallel_, &packed, &problem.x));
    problem.plan = &plan.plan;
    problem.width = arguments.width;
    problem.weights = Data<T>(arguments.parameters.weights());
    problem.biases = Data<T>(arguments.parameters.biases());
    return absl::OkStatus();
  }

  // Makes the op's outputs 0 and 1, and dz.
  absl::Status MakeLosses(OpKernelContext* context,
                          const LossAttributes& attributes,
                          const A* dx_factors) {
    Tensor *loss, *dx;
    LabelTreeOutputs<T> outputs;
    TF_RETURN_IF_ERROR(
        context->allocate_output(0, arguments.batch_shape, &loss));
    TF_RETURN_IF_ERROR(AllocateOutput(
        context, 1, arguments.DxShape(context, attributes), &dx));
    TF_RETURN_IF_ERROR(AllocateTemp(context, TensorShape({plan.plan.num_probs}),
                                    &dz, &outputs.dz));
    outputs.loss = Data<A>(*loss);
    if (dx->NumElements() > 0) outputs.dx = Data<A>(*dx);
    outputs.dx_factors = dx_factors;
    LabelTreeForward<T>(plan, problem, Table(), parallel_, outputs);
    return absl::OkStatus();
  }

  static const KernelTable<T>& Table() {
    return KernelTableFor<T>(ActiveIsa(nullptr));
  }

  LossArguments arguments;
  LabelPlan plan;
  Problem<T> problem;
  Tensor packed;  // the memory of problem.x
  Tensor dz;

 private:
  Parallel parallel_;
};

template <typename T>
struct LabelTreeLossOp : LossAttributes {
  absl::Status Run(OpKernelContext* context) const {
    LabelTreeBatch<T> in;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Read(context, kDataType<T>));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    TF_RETURN_IF_ERROR(in.MakeLosses(context, *this, /*dx_factors=*/nullptr));
    std::shared_ptr<const LossState> state;
    if (with_gradients && context->output_required(2)) {
      state = std::make_shared<CpuLossState>(in.arguments, *this,
                                             std::move(in.plan), in.packed,
                                             /*normalizers=*/Tensor(), in.dz);
    }
    return SetLossState(context, 2, std::move(state));
  }
};

template <typename T>
struct LabelTreeTrainStepOp : TrainStepAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    LabelTreeBatch<T> in;
    Update<T> update;
    const Tensor* loss_grads;
    StepNumbers numbers;
    TF_RETURN_IF_ERROR(in.arguments.parameters.Write(
        context, kDataType<T>, kDataType<A>, rule, /*embeds=*/false));
    TF_RETURN_IF_ERROR(in.Prepare(context, *this));
    TF_RETURN_IF_ERROR(
        ReadLossGrads(context, in.arguments.batch_shape, &loss_grads));
    TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers));
    SetParameters(*this, in.arguments.parameters, &update);
    SetNumbers(numbers, &update);
    TF_RETURN_IF_ERROR(in.MakeLosses(context, *this, Data<A>(*loss_grads)));

    const Plan& plan = in.plan.plan;
    const std::vector<A> of_visits = InOrder(plan, Data<A>(*loss_grads));
    BackwardArguments<T> arguments;
    arguments.loss_grads = of_visits.data();
    arguments.probs = Data<A>(in.dz);
    arguments.update = &update;
    // From here on nothing needs memory once a row has changed.
    const auto& table = in.Table();
    const StepMemory<T> memory(plan, in.arguments.width, table);
    Backward<T>(in.problem, table,
                PoolParallel(context, [memory] { memory.Reserve(); }),
                arguments);
    return absl::OkStatus();
  }
};

const KernelRegistration<LabelTreeLossOp> loss(kCpu, "TfHsmLabelTreeLoss");
const KernelRegistration<LabelTreeTrainStepOp> train_step(
    kCpu, "TfHsmLabelTreeTrainStep");

}  // namespace
}  // namespace tf_hsm
