// The rows that a training step changes in place, and how.

#ifndef TF_HSM_CC_CORE_UPDATE_UPDATE_H_
#define TF_HSM_CC_CORE_UPDATE_UPDATE_H_

#include <cstdint>

#include "cc/core/base/types.h"
#include "cc/core/update/rules.h"

namespace tf_hsm {

// Parameters that are changed, and by which rule. Slots that the rule does not
// have are null.
template <typename T>
struct UpdatedParameters {
  using A = Accumulator<T>;
  UpdateRule rule = UpdateRule::kSgd;
  T* weights = nullptr;             // [rows, width]
  T* biases = nullptr;              // [rows], or null
  A* weight_slots[kMaxSlots] = {};  // [rows, width]; row-wise: [rows]
  A* bias_slots[kMaxSlots] = {};    // [rows]
  bool stochastic = false;          // bfloat16: round up with the chance that
                                    // keeps the mean, not to nearest
};

// One step of the rule.
template <typename T>
struct Update : UpdatedParameters<T> {
  Hyperparameters hyper;
  // What a number loses before the rule's change, as a share of itself: the
  // learning rate times a decoupled weight decay.
  double decay = 0;
  double bias_decay = 0;
  uint64_t seed = 0;  // of the rounding; a new one for every step
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_UPDATE_H_
