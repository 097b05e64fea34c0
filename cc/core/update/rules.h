// The update rules: how a training step changes a number of the parameters.
//
// With g the gradient of a number v, and slots that start where their owner
// says:
//   kSgd              v -= rate g
//   kAdagrad          s += g^2;                    v -= rate g / sqrt(s + eps)
//   kRowwiseAdagrad   s += mean over the row of g^2, one s per row; the same v
//   kAdam             m += (1 - beta_1) (g - m);   u += (1 - beta_2) (g^2 - u)
//                     v -= rate m / (sqrt(u) + eps)
//   kRmsprop          u += (1 - beta_2) (g^2 - u);  v -= rate g / sqrt(u + eps)
//   ...Momentum       p = beta_1 p + that change;   v -= p
//   ...Centered       a += (1 - beta_2) (g - a);    u - a^2 in place of u
//   kLion             c = m + (1 - beta_1) (g - m); v -= rate sign(c)
//                     m += (1 - beta_2) (g - m)
// A bias is a row of one number. Adam's rate holds its correction of the bias
// of both averages. A row that is not touched keeps its slots (lazy Adam).
//
// A rule is written here once: the CPU's vectors and the GPU compute with these
// lines. Tests compare both with cc/core/testing/reference.h, which has its
// own.

#ifndef TF_HSM_CC_CORE_UPDATE_RULES_H_
#define TF_HSM_CC_CORE_UPDATE_RULES_H_

#include "cc/core/base/host_device.h"

namespace tf_hsm {

// Every rule: its enumerator, its name in the attributes of the ops, how many
// slots it has per number, and whether it has them per row instead.
#define TF_HSM_UPDATE_RULES(X)                      \
  TF_HSM_GPU_UPDATE_RULES(X)                        \
  X(kRmspropMomentum, "rmsprop_momentum", 2, false) \
  X(kRmspropCentered, "rmsprop_centered", 2, false) \
  X(kRmspropCenteredMomentum, "rmsprop_centered_momentum", 3, false)

// The first rules, by which GPUs also update rows in the gradient of a loss.
// Each is in all kernels of that gradient, and takes nvcc's time: the options
// of RMSprop are left out.
#define TF_HSM_GPU_UPDATE_RULES(X)               \
  X(kSgd, "sgd", 0, false)                       \
  X(kAdagrad, "adagrad", 1, false)               \
  X(kRowwiseAdagrad, "rowwise_adagrad", 1, true) \
  X(kAdam, "adam", 2, false)                     \
  X(kRmsprop, "rmsprop", 1, false)               \
  X(kLion, "lion", 1, false)

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

constexpr int kMaxSlots = 3;

#define TF_HSM_CHECK_SLOTS(rule, name, num_slots, per_row) \
  static_assert(num_slots <= kMaxSlots, name);
TF_HSM_UPDATE_RULES(TF_HSM_CHECK_SLOTS)
#undef TF_HSM_CHECK_SLOTS

constexpr const RuleTraits& TraitsOf(UpdateRule rule) {
  return kUpdateRules[static_cast<int>(rule)];
}

constexpr int NumSlots(UpdateRule rule) { return TraitsOf(rule).num_slots; }

constexpr bool RunsOnGpus(UpdateRule rule) { return rule <= UpdateRule::kLion; }

constexpr bool IsCentered(UpdateRule rule) {
  return rule == UpdateRule::kRmspropCentered ||
         rule == UpdateRule::kRmspropCenteredMomentum;
}

constexpr bool HasMomentum(UpdateRule rule) {
  return rule == UpdateRule::kRmspropMomentum ||
         rule == UpdateRule::kRmspropCenteredMomentum;
}

constexpr bool IsRmsprop(UpdateRule rule) {
  return rule == UpdateRule::kRmsprop || IsCentered(rule) || HasMomentum(rule);
}

// Whether the change of a row is one rate times its gradient.
constexpr bool ScalesGradient(UpdateRule rule) {
  return rule == UpdateRule::kSgd || rule == UpdateRule::kRowwiseAdagrad;
}

// The rule of biases: in rows of one number, both kinds of Adagrad are the
// same.
constexpr UpdateRule BiasRule(UpdateRule rule) {
  return rule == UpdateRule::kRowwiseAdagrad ? UpdateRule::kAdagrad : rule;
}

struct Hyperparameters {
  double learning_rate = 0;
  double beta_1 = 0;  // RMSprop: the momentum
  double beta_2 = 0;  // RMSprop: rho
  double epsilon = 0;
};

// A rule as a type, to choose a template's argument in a generic lambda.
template <UpdateRule rule>
struct RuleConstant {
  static constexpr UpdateRule value = rule;
  // Slots of each number of the weights, and slots of each row.
  static constexpr int number_slots =
      TraitsOf(rule).slots_per_row ? 0 : TraitsOf(rule).num_slots;
  static constexpr int row_slots = TraitsOf(rule).num_slots - number_slots;
  static constexpr bool is_rmsprop = IsRmsprop(rule);
  static constexpr bool is_centered = IsCentered(rule);
  static constexpr bool has_momentum = HasMomentum(rule);
};

// Calls `call` with the RuleConstant of the rule.
template <typename Call>
TF_HSM_HOST_DEVICE void WithRule(UpdateRule rule, Call call) {
#define TF_HSM_CASE(rule, name, num_slots, per_row) \
  case UpdateRule::rule:                            \
    return call(RuleConstant<UpdateRule::rule>());
  switch (rule) { TF_HSM_UPDATE_RULES(TF_HSM_CASE) }
#undef TF_HSM_CASE
}

// Calls `call` with the RuleConstant of a rule that RunsOnGpus.
template <typename Call>
TF_HSM_HOST_DEVICE void WithGpuRule(UpdateRule rule, Call call) {
#define TF_HSM_CASE(rule, name, num_slots, per_row) \
  case UpdateRule::rule:                            \
    return call(RuleConstant<UpdateRule::rule>());
  switch (rule) {
    TF_HSM_GPU_UPDATE_RULES(TF_HSM_CASE)
    default:
      return;
  }
#undef TF_HSM_CASE
}

// One step of a rule, computed with what Math names:
//   Math::Scalar   float or double
//   Math::Number   a Scalar, or a vector of them
//   Math::Sqrt     of each of the two
// Every ISA and the GPU have a Math of their own.
template <typename Math>
struct RuleStep {
  using A = typename Math::Scalar;
  using Number = typename Math::Number;

  A rate, epsilon;
  A beta_1;
  A keep_1, keep_2;  // 1 - beta

  TF_HSM_HOST_DEVICE explicit RuleStep(const Hyperparameters& hyper)
      : rate(static_cast<A>(hyper.learning_rate)),
        epsilon(static_cast<A>(hyper.epsilon)),
        beta_1(static_cast<A>(hyper.beta_1)),
        keep_1(static_cast<A>(1 - hyper.beta_1)),
        keep_2(static_cast<A>(1 - hyper.beta_2)) {}

  // The rate of a row whose gradient has this mean square. Changes the slots
  // of the row.
  template <UpdateRule rule>
  TF_HSM_HOST_DEVICE A RowRate(A mean_square, A* slots) const {
    if constexpr (rule == UpdateRule::kRowwiseAdagrad) {
      slots[0] += mean_square;
      return rate / Math::Sqrt(slots[0] + epsilon);
    }
    return rate;
  }

  // What to subtract from numbers of the gradient g, given the rate of their
  // row. Changes the slots of the numbers.
  template <UpdateRule rule>
  TF_HSM_HOST_DEVICE Number Change(A row_rate, Number g, Number* slots) const {
    if constexpr (rule == UpdateRule::kAdagrad) {
      slots[0] += g * g;
      return row_rate * g / Math::Sqrt(slots[0] + epsilon);
    } else if constexpr (rule == UpdateRule::kAdam) {
      slots[0] += (g - slots[0]) * keep_1;
      slots[1] += (g * g - slots[1]) * keep_2;
      return row_rate * slots[0] / (Math::Sqrt(slots[1]) + epsilon);
    } else if constexpr (RuleConstant<rule>::is_rmsprop) {
      slots[0] += (g * g - slots[0]) * keep_2;
      Number square = slots[0];
      if constexpr (RuleConstant<rule>::is_centered) {
        Number& mean = slots[RuleConstant<rule>::number_slots - 1];
        mean += (g - mean) * keep_2;
        square -= mean * mean;
        // Rounding alone makes a variance negative.
        square = square < Number{} ? Number{} : square;
      }
      const Number change = row_rate * g / Math::Sqrt(square + epsilon);
      if constexpr (RuleConstant<rule>::has_momentum) {
        slots[1] = slots[1] * beta_1 + change;
        return slots[1];
      }
      return change;
    } else if constexpr (rule == UpdateRule::kLion) {
      const Number zero = {};
      const Number c = slots[0] + (g - slots[0]) * keep_1;
      slots[0] += (g - slots[0]) * keep_2;
      // A zero, or no number at all, stays what it is.
      return row_rate * (c > zero ? zero + A(1) : c < zero ? zero - A(1) : c);
    } else {
      return row_rate * g;
    }
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_RULES_H_
