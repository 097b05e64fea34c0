// What a training step in place reads beside its batch, on any device.

#ifndef TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/update/update.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

// Reads the op's attribute `rule`.
absl::Status ReadRule(OpKernelConstruction* context, UpdateRule* rule);

// The attributes of an update, beside those of `Attributes`.
template <typename Attributes>
struct StepAttributes : Attributes {
  static constexpr bool kTakesTensors = false;

  bool stochastic_rounding = false;
  UpdateRule rule = UpdateRule::kSgd;

  absl::Status Read(OpKernelConstruction* context) {
    TF_RETURN_IF_ERROR(Attributes::Read(context));
    TF_RETURN_IF_ERROR(
        context->GetAttr("stochastic_rounding", &stochastic_rounding));
    return ReadRule(context, &rule);
  }
};

using TrainStepAttributes = StepAttributes<LossAttributes>;
using LossStepAttributes = StepAttributes<OpAttributes>;

// Reads the op's input `moved`, a scalar in host memory.
absl::Status ReadMoved(OpKernelContext* context, bool* moved);

// What a kernel takes from the op's inputs `hyperparameters` and `seed`, in the
// memory where the op has them. Any numbers are taken.
struct StepNumbers {
  const Hyperparameters* hyper = nullptr;
  // A number for each kind of variable, in the order weights, biases, vectors;
  // null: none.
  const double* decays = nullptr;
  const uint64_t* seed = nullptr;
};

// Finds the numbers, and checks their shapes. `decays`: how many there are, if
// any.
absl::Status FindStepNumbers(OpKernelContext* context, StepNumbers* numbers,
                             int decays = 3);

// Copies numbers in host memory.
template <typename T>
void SetNumbers(const StepNumbers& numbers, Update<T>* update) {
  update->hyper = *numbers.hyper;
  update->seed = *numbers.seed;
  if (numbers.decays == nullptr) return;
  update->decay = numbers.decays[0];
  update->bias_decay = numbers.decays[1];
}

// Points `data` at the numbers of `slots`.
template <typename A>
void PointAtSlots(const std::vector<Tensor*>& slots, A** data) {
  for (const Tensor* slot : slots) *data++ = Data<A>(*slot);
}

// Fills `update` from parameters that Parameters::Write has found; T is the
// core's element type, and `attributes` are StepAttributes.
template <typename T, typename Attributes>
void SetParameters(const Attributes& attributes, const Parameters& parameters,
                   UpdatedParameters<T>* update) {
  update->rule = attributes.rule;
  update->stochastic = attributes.stochastic_rounding;
  update->weights = Data<T>(parameters.weights());
  update->biases = Data<T>(parameters.biases());
  PointAtSlots(parameters.weight_slots(), update->weight_slots);
  PointAtSlots(parameters.bias_slots(), update->bias_slots);
}

// The update of the vectors that Parameters::Write has found beside them.
template <typename T>
Update<T> UpdateOfVectors(const Update<T>& of_weights,
                          const StepNumbers& numbers,
                          const Parameters& parameters) {
  Update<T> update;
  update.rule = of_weights.rule;
  update.hyper = of_weights.hyper;
  if (numbers.decays != nullptr) update.decay = numbers.decays[2];
  update.weights = Data<T>(*parameters.vectors());
  PointAtSlots(parameters.vector_slots(), update.weight_slots);
  update.stochastic = of_weights.stochastic;
  // Rows of weights and vectors with equal numbers must not share random bits.
  update.seed = ~of_weights.seed;
  return update;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_
