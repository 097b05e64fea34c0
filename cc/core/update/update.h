// How a training step changes the rows that it touches, in place.

#ifndef TF_HSM_CC_CORE_UPDATE_UPDATE_H_
#define TF_HSM_CC_CORE_UPDATE_UPDATE_H_

#include <cstdint>

#include "cc/core/base/types.h"

namespace tf_hsm {

// With g the gradient of a number v, and slots that start where their owner
// says:
//   kSgd              v -= rate g
//   kAdagrad          s += g^2;                    v -= rate g / sqrt(s + eps)
//   kRowwiseAdagrad   s += mean over the row of g^2, one s per row; the same v
//   kAdam             m += (1 - beta_1) (g - m);   u += (1 - beta_2) (g^2 - u)
//                     v -= rate m / (sqrt(u) + eps)
// A bias is a row of one number. Adam's rate holds its correction of the bias
// of both averages; rows that are not touched keep theirs (lazy Adam).
//
// Every rule: its enumerator, its name in the attributes of the ops, how many
// slots it has per number, and whether it has them per row instead.
#define TF_HSM_UPDATE_RULES(X)                   \
  X(kSgd, "sgd", 0, false)                       \
  X(kAdagrad, "adagrad", 1, false)               \
  X(kRowwiseAdagrad, "rowwise_adagrad", 1, true) \
  X(kAdam, "adam", 2, false)

#define TF_HSM_ENUMERATOR(rule, name, num_slots, per_row) rule,
enum class UpdateRule { TF_HSM_UPDATE_RULES(TF_HSM_ENUMERATOR) };
#undef TF_HSM_ENUMERATOR

struct RuleTraits {
  UpdateRule rule;
  const char* name;
  int num_slots;  // per number; per row where slots_per_row
  bool slots_per_row;
};

#define TF_HSM_TRAITS(rule, name, num_slots, per_row) \
  {UpdateRule::rule, name, num_slots, per_row},
inline constexpr RuleTraits kUpdateRules[] = {
    TF_HSM_UPDATE_RULES(TF_HSM_TRAITS)};
#undef TF_HSM_TRAITS

constexpr const RuleTraits& TraitsOf(UpdateRule rule) {
  return kUpdateRules[static_cast<int>(rule)];
}

constexpr int NumSlots(UpdateRule rule) { return TraitsOf(rule).num_slots; }

struct Hyperparameters {
  double learning_rate = 0;
  double beta_1 = 0;
  double beta_2 = 0;
  double epsilon = 0;
};

// Parameters that are changed, and how. Slots that the rule has not are null.
template <typename T>
struct Update {
  using A = Accumulator<T>;
  UpdateRule rule = UpdateRule::kSgd;
  Hyperparameters hyper;
  T* weights = nullptr;     // [rows, width]
  T* biases = nullptr;      // [rows], or null
  A* weight_slots[2] = {};  // [rows, width]; row-wise: [rows]
  A* bias_slots[2] = {};    // [rows]
  bool stochastic = false;  // bfloat16: round up with the chance that
                            // keeps the mean, not to nearest
  uint64_t seed = 0;        // of the rounding; a new one for every step
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_UPDATE_H_
