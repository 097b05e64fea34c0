// The step of an optimizer from the state that a loss op has kept, on the CPU.

#include <algorithm>
#include <vector>

#include "cc/core/api/label_tree.h"
#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/update/update.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/common/register.h"
#include "cc/kernels/common/train_step_arguments.h"
#include "cc/kernels/cpu/cpu_loss_state.h"
#include "cc/kernels/cpu/loss_batch.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {
namespace {

// Normalizers and probabilities, as a loss keeps them, of other parameters.
template <typename T>
class FreshTerms {
 public:
  using A = Accumulator<T>;

  // Runs the forward, and points `arguments` at the terms.
  absl::Status Make(OpKernelContext* context, const CpuLossState& state,
                    const Problem<T>& problem, const KernelTable<T>& table,
                    BackwardArguments<T>* arguments) {
    const Parallel parallel = PoolParallel(context);
    Tensor loss;
    ForwardOutputs<T> outputs;
    TF_RETURN_IF_ERROR(
        AllocateTemp(context, state.batch_shape, &loss, &outputs.loss));
    TF_RETURN_IF_ERROR(AllocateTemp(context, state.normalizers.shape(),
                                    &normalizers_, &outputs.normalizers));
    if (state.probs.NumElements() > 0) {
      TF_RETURN_IF_ERROR(
          AllocateTemp(context, state.probs.shape(), &probs_, &outputs.probs));
    }
    if (state.is_label_tree()) {
      LabelTreeOutputs<T> of_sets;
      of_sets.loss = outputs.loss;
      of_sets.dz = outputs.probs;
      LabelTreeForward<T>(state.labels, problem, table, parallel, of_sets);
    } else {
      SetZero(parallel, &loss);
      Forward<T>(problem, table, parallel, outputs);
    }
    arguments->normalizers = outputs.normalizers;
    arguments->probs = outputs.probs;
    return absl::OkStatus();
  }

 private:
  Tensor normalizers_, probs_;
};

template <typename T>
struct LossStepOp : LossStepAttributes {
  using A = Accumulator<T>;

  absl::Status Run(OpKernelContext* context) const {
    Parameters parameters;
    const LossState* any_state;
    const Tensor* loss_grads;
    StepNumbers numbers;
    bool moved;
    Update<T> update;
    TF_RETURN_IF_ERROR(
        parameters.Write(context, kDataType<T>, kDataType<A>, rule));
    TF_RETURN_IF_ERROR(ReadLossState(context, StateOf::kCpu, parameters,
                                     &any_state, &loss_grads));
    TF_RETURN_IF_ERROR(FindStepNumbers(context, &numbers));
    TF_RETURN_IF_ERROR(ReadMoved(context, &moved));
    PreferHugePages(parameters);
    SetParameters(*this, parameters, &update);
    SetNumbers(numbers, &update);

    const auto& state = static_cast<const CpuLossState&>(*any_state);
    const std::vector<A> sorted = InOrder(state.plan(), Data<A>(*loss_grads));
    if (!moved && state.IsReady(sorted)) {
      ApplySums(context, update, sorted[0], state.ready.get());
      return absl::OkStatus();
    }
    const auto& table = KernelTableFor<T>(ActiveIsa(nullptr));
    const Problem<T> problem = state.ProblemOf<T>(parameters);
    BackwardArguments<T> arguments = state.BackwardOf<T>(sorted);
    FreshTerms<T> fresh;
    if (moved) {
      TF_RETURN_IF_ERROR(
          fresh.Make(context, state, problem, table, &arguments));
    }
    arguments.update = &update;
    // From here on nothing needs memory once a row has changed.
    const StepMemory<T> memory(state.plan(), problem.width, table);
    Backward<T>(problem, table,
                PoolParallel(context, [memory] { memory.Reserve(); }),
                arguments);
    return absl::OkStatus();
  }

  // Updates all rows of a tree of one group. `weight`: of each loss.
  static void ApplySums(OpKernelContext* context, const Update<T>& update,
                        A weight, ReadyGradient* ready) {
    const int64_t fanout = ready->dw.dim_size(0);
    const int64_t width = ready->dw.dim_size(1);
    const std::vector<A> factors(fanout, ready->FactorOf(weight));
    std::vector<KeyAndIndex> rows(fanout);
    for (int64_t i = 0; i < fanout; ++i) rows[i] = {i, i};
    SparseGradient<T> dw, db;
    dw.rows = db.rows = rows.data();
    dw.factors = db.factors = factors.data();
    dw.values = Data<A>(ready->dw);
    dw.count = fanout;
    dw.width = width;
    // The biases as one row, so that one update takes them all.
    db.values = Data<A>(ready->db);
    db.count = 1;
    db.width = fanout;
    // From here on nothing needs memory once a row has changed.
    const int64_t most = std::max(fanout, width);
    const Parallel parallel =
        PoolParallel(context, [most] { ReserveSparseUpdate<T>(most); });
    SparseUpdate<T>(update, dw, parallel);
    if (update.biases != nullptr) {
      SparseUpdate<T>(UpdateOfBiases(update), db, parallel);
    }
  }

  // The update of the biases, as weights of row 0.
  static Update<T> UpdateOfBiases(const Update<T>& update) {
    Update<T> of_biases = update;
    of_biases.rule = BiasRule(update.rule);
    of_biases.weights = update.biases;
    std::copy_n(update.bias_slots, kMaxSlots, of_biases.weight_slots);
    of_biases.decay = update.bias_decay;
    of_biases.seed = update.seed + 1;  // BiasCounter
    return of_biases;
  }
};

const KernelRegistration<LossStepOp> loss_step(kCpu, "TfHsmLossStep");

}  // namespace
}  // namespace tf_hsm
