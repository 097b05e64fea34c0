// What a training step in place reads beside its batch, on any device.

#ifndef TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_
#define TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/update/update.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/parameters.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

// The rule that the attribute `rule` names.
absl::Status RuleOf(const std::string& name, UpdateRule* rule);

// The op's attributes.
struct TrainStepAttributes {
  std::vector<int64_t> ignored;
  bool with_gradients = true;  // where the op has this one
  bool stochastic_rounding = false;
  UpdateRule rule = UpdateRule::kSgd;

  absl::Status Read(tensorflow::OpKernelConstruction* context);
};

// Reads the op's inputs `hyperparameters` and `seed`, both in host memory.
absl::Status ReadHyperparameters(tensorflow::OpKernelContext* context,
                                 Hyperparameters* hyper, uint64_t* seed);

// The update of parameters that Parameters::Write has found; T is the core's
// element type.
template <typename T>
absl::Status ReadUpdate(tensorflow::OpKernelContext* context,
                        const TrainStepAttributes& attributes,
                        const Parameters& parameters, Update<T>* update) {
  using A = Accumulator<T>;
  TF_RETURN_IF_ERROR(
      ReadHyperparameters(context, &update->hyper, &update->seed));
  update->rule = attributes.rule;
  update->stochastic = attributes.stochastic_rounding;
  update->weights = static_cast<T*>(parameters.weights().data());
  if (parameters.biases() != nullptr) {
    update->biases = static_cast<T*>(parameters.biases()->data());
  }
  for (int s = 0; s < NumSlots(attributes.rule); ++s) {
    update->weight_slots[s] =
        static_cast<A*>(parameters.weight_slots()[s]->data());
    if (parameters.biases() == nullptr) continue;
    update->bias_slots[s] = static_cast<A*>(parameters.bias_slots()[s]->data());
  }
  return absl::OkStatus();
}

// The update of the vectors that Parameters::Write has found beside them.
template <typename T>
Update<T> UpdateOfVectors(const Update<T>& of_weights,
                          const Parameters& parameters) {
  using A = Accumulator<T>;
  Update<T> update;
  update.rule = of_weights.rule;
  update.hyper = of_weights.hyper;
  update.weights = static_cast<T*>(parameters.vectors()->data());
  for (int s = 0; s < NumSlots(update.rule); ++s) {
    update.weight_slots[s] =
        static_cast<A*>(parameters.vector_slots()[s]->data());
  }
  update.stochastic = of_weights.stochastic;
  // Other bits than the weights' rows of the same numbers have.
  update.seed = ~of_weights.seed;
  return update;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_TRAIN_STEP_ARGUMENTS_H_
