// Checks updates in place, by every rule.

#ifndef TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_

#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/testing/update_state.h"
#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

constexpr double kDecays[2] = {0.03125, 0.0625};

template <typename T>
class UpdateCheck {
 public:
  using A = Accumulator<T>;

  // `c` has its reference.
  explicit UpdateCheck(const LossCase<T>& c) : case_(c) {}

  void Run() const {
    for (const RuleTraits& traits : kUpdateRules) {
      if (!RunsOnGpus(traits.rule)) continue;
      // The other rules differ in one function, that of a number.
      const bool other =
          traits.rule != UpdateRule::kSgd && !traits.slots_per_row;
      if (!other || std::is_same<T, float>::value) {
        CheckUpdate(traits.rule, false);
      }
      if (traits.rule == UpdateRule::kRowwiseAdagrad ||
          (traits.rule == UpdateRule::kAdam && std::is_same<T, float>::value)) {
        CheckUpdate(traits.rule, true);
      }
    }
  }
  // By one rule: labels do not change how gradients are applied.
  void RunOneRule() const { CheckUpdate(UpdateRule::kAdagrad, false); }

 private:
  struct Results {
    State<T> state;
    std::vector<A> dx;
    std::string error;
  };

  Results RunUpdate(UpdateRule rule, bool decays) const {
    const DeviceCase<T> device(case_);
    std::vector<float> inputs;
    for (const T& value : case_.x) inputs.push_back(ToDouble(value));
    const DeviceArray<float> float_x(inputs);
    const DeviceArray<int32_t> narrow_labels(
        std::vector<int32_t>(case_.labels.begin(), case_.labels.end()));
    Results results;
    State<T>& state = results.state;
    state = MakeState<T>(rule, case_.tree.num_weight_rows(), case_.width,
                         case_.w, case_.Biases());
    const DeviceArray<A> slots[] = {DeviceArray<A>(state.w_slots[0]),
                                    DeviceArray<A>(state.w_slots[1])};
    const DeviceArray<A> bias_slots[] = {DeviceArray<A>(state.b_slots[0]),
                                         DeviceArray<A>(state.b_slots[1])};
    // Other types than in LossCheck, with the same values.
    Batch<T> batch = device.batch;
    batch.inputs = float_x.data();
    batch.input_type = kElementType<float>;
    batch.labels = narrow_labels.data();
    batch.labels_are_int64 = false;
    const DeviceMemory blocks(batch, case_.logits);
    const DeviceArray<A> loss(case_.size), dx(case_.size * case_.width);
    const DeviceArray<Hyperparameters> hyper({kHyper});
    const DeviceArray<double> factors({kDecays[0], kDecays[1]});
    DeviceUpdate<T> update;
    update.rule = rule;
    update.hyper = hyper.data();
    if (decays) update.decays = factors.data();
    update.weights = device.w.data();
    update.biases = case_.biases ? device.b.data() : nullptr;
    for (int s = 0; s < NumSlots(rule); ++s) {
      update.weight_slots[s] = slots[s].data();
      update.bias_slots[s] = bias_slots[s].data();
    }
    const A* grads = device.grads.data();
    results.error = Forward<T>(batch, blocks.memory,
                               {loss.data(), dx.data(), grads}, CheckStream());
    results.error +=
        ApplyUpdate(batch, blocks.memory, grads, update, CheckStream());
    state.w = device.w.Download();
    if (case_.biases) state.b = device.b.Download();
    for (int s = 0; s < NumSlots(rule); ++s) {
      state.w_slots[s] = slots[s].Download();
      state.b_slots[s] = bias_slots[s].Download();
    }
    results.dx = dx.Download();
    return results;
  }

  void CheckUpdate(UpdateRule rule, bool decays) const {
    const Results got = RunUpdate(rule, decays);
    const Results again = RunUpdate(rule, decays);
    const ReferenceSums& sums = case_.want;
    State<double> want =
        MakeState<double>(rule, case_.tree.num_weight_rows(), case_.width,
                          ToDoubles(case_.w), ToDoubles(case_.Biases()));
    if (decays) {
      want.decay = kDecays[0];
      want.bias_decay = kDecays[1];
    }
    ReferenceUpdateRows(sums.touched, sums.dw, sums.db, case_.width, rule,
                        &want);
    std::vector<double> dx = sums.dx;
    for (size_t i = 0; i < dx.size(); ++i)
      dx[i] *= case_.grads[i / case_.width];
    Errors weights, biases, slots, inputs;
    weights.AddAll(got.state.w, want.w);
    biases.AddAll(got.state.b, want.b);
    inputs.AddAll(got.dx, dx);
    for (int s = 0; s < NumSlots(rule); ++s) {
      slots.AddAll(got.state.w_slots[s], want.w_slots[s]);
      slots.AddAll(got.state.b_slots[s], want.b_slots[s]);
    }
    case_.Report(
        TraitsOf(rule).name + std::string(decays ? ", decay" : ""), got.error,
        {{"dx", inputs}, {"w", weights}, {"b", biases}, {"slots", slots}},
        SameState(got.state, again.state) && SameBits(got.dx, again.dx));
  }

  const LossCase<T>& case_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
