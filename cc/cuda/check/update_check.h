// Checks updates in place, by every rule.

#ifndef TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_

#include <string>
#include <type_traits>
#include <vector>

#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

constexpr Hyperparameters kHyper = {0.1, 0.9, 0.99, 1e-3};
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
  struct State {
    std::vector<T> w, b;
    std::vector<A> slots[2], bias_slots[2];
    std::vector<A> loss, dx;
    std::string error;
    bool operator==(const State& o) const {
      bool same = SameBits(w, o.w) && SameBits(b, o.b) && SameBits(dx, o.dx);
      for (int s = 0; s < 2; ++s) {
        same = same && SameBits(slots[s], o.slots[s]) &&
               SameBits(bias_slots[s], o.bias_slots[s]);
      }
      return same;
    }
  };

  State RunUpdate(UpdateRule rule, bool decays) const {
    const int64_t slot_width = TraitsOf(rule).slots_per_row ? 1 : case_.width;
    const DeviceCase<T> device(case_);
    std::vector<float> inputs;
    for (const T& value : case_.x) inputs.push_back(ToDouble(value));
    const DeviceArray<float> float_x(inputs);
    const DeviceArray<int32_t> narrow_labels(
        std::vector<int32_t>(case_.labels.begin(), case_.labels.end()));
    const int64_t rows = case_.tree.num_weight_rows();
    const std::vector<A> start(rows * slot_width, A(0.25));
    const std::vector<A> bias_start(rows, A(0.25));
    const DeviceArray<A> slot_0(start), slot_1(start), bias_slot_0(bias_start),
        bias_slot_1(bias_start);
    // Other types than in LossCheck, with the same values.
    Batch<T> batch = device.batch;
    batch.inputs = float_x.data();
    batch.input_type = kElementType<float>;
    batch.labels = narrow_labels.data();
    batch.labels_are_int64 = false;
    const DeviceMemory blocks(batch, case_.logits);
    const DeviceArray<A> loss(case_.size), dx(case_.size * case_.width);
    const DeviceArray<Hyperparameters> hyper({kHyper});
    DeviceUpdate<T> update;
    update.rule = rule;
    update.hyper = hyper.data();
    const DeviceArray<double> factors({kDecays[0], kDecays[1]});
    if (decays) update.decays = factors.data();
    update.weights = device.w.data();
    update.biases = case_.biases ? device.b.data() : nullptr;
    const int slots = NumSlots(rule);
    if (slots > 0) {
      update.weight_slots[0] = slot_0.data();
      update.bias_slots[0] = bias_slot_0.data();
    }
    if (slots > 1) {
      update.weight_slots[1] = slot_1.data();
      update.bias_slots[1] = bias_slot_1.data();
    }
    State result;
    const A* grads = device.grads.data();
    result.error = Forward<T>(batch, blocks.memory,
                              {loss.data(), dx.data(), grads}, CheckStream());
    result.error +=
        ApplyUpdate(batch, blocks.memory, grads, update, CheckStream());
    result.w = device.w.Download();
    result.b = device.b.Download();
    result.slots[0] = slot_0.Download();
    result.slots[1] = slot_1.Download();
    result.bias_slots[0] = bias_slot_0.Download();
    result.bias_slots[1] = bias_slot_1.Download();
    result.loss = loss.Download();
    result.dx = dx.Download();
    return result;
  }

  void CheckUpdate(UpdateRule rule, bool decays) const {
    const State got = RunUpdate(rule, decays);
    const State again = RunUpdate(rule, decays);
    const int64_t width = case_.width;
    const bool row_wise = TraitsOf(rule).slots_per_row;
    std::vector<double> w = ToDoubles(case_.w), b = ToDoubles(case_.b);
    std::vector<double> sums(got.slots[0].size(), 0.25);
    std::vector<double> dx = case_.dx;
    for (size_t i = 0; i < dx.size(); ++i) dx[i] *= case_.grads[i / width];
    for (int64_t row : case_.rows) {
      double mean_square = 0;
      for (int64_t d = 0; d < width; ++d) {
        mean_square +=
            case_.dw[row * width + d] * case_.dw[row * width + d] / width;
      }
      for (int64_t d = 0; d < width; ++d) {
        double slots[2] = {0.25, 0.25};
        double& value = w[row * width + d];
        value =
            ReferenceUpdate(rule, kHyper, case_.dw[row * width + d],
                            mean_square, value, slots, decays ? kDecays[0] : 0);
        sums[row_wise ? row : row * width + d] = slots[0];
      }
      double slots[2] = {0.25, 0.25};
      if (case_.biases) {
        b[row] = ReferenceUpdate(rule, kHyper, case_.db[row],
                                 case_.db[row] * case_.db[row], b[row], slots,
                                 decays ? kDecays[1] : 0);
      }
    }
    Errors weights, biases, slots, inputs;
    weights.AddAll(got.w, w);
    biases.AddAll(got.b, b);
    inputs.AddAll(got.dx, dx);
    if (NumSlots(rule) > 0) slots.AddAll(got.slots[0], sums);
    case_.Report(
        TraitsOf(rule).name + std::string(decays ? ", decay" : ""), got.error,
        {{"dx", inputs}, {"w", weights}, {"b", biases}, {"slots", slots}},
        got == again);
  }

  const LossCase<T>& case_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
