// Checks updates in place, by every rule, and stochastic rounding of bfloat16.

#ifndef TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/core/testing/update_state.h"
#include "cc/core/update/random_bits.h"
#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm::gpu {

constexpr double kDecays[2] = {0.03125, 0.0625};

template <typename T>
struct UpdateResults {
  State<T> state;
  std::vector<Accumulator<T>> dx;
  std::string error;
};

template <typename T>
UpdateResults<T> RunUpdate(const LossCase<T>& c, UpdateRule rule, bool decays) {
  using A = Accumulator<T>;
  const DeviceCase<T> device(c);
  std::vector<float> inputs;
  for (const T& value : c.x) inputs.push_back(ToDouble(value));
  const DeviceArray<float> float_x(inputs);
  const DeviceArray<int32_t> narrow_labels(
      std::vector<int32_t>(c.labels.begin(), c.labels.end()));
  UpdateResults<T> results;
  State<T>& state = results.state;
  state =
      MakeState<T>(rule, c.tree.num_weight_rows(), c.width, c.w, c.Biases());
  const DeviceArray<A> slots[] = {DeviceArray<A>(state.w_slots[0]),
                                  DeviceArray<A>(state.w_slots[1])};
  const DeviceArray<A> bias_slots[] = {DeviceArray<A>(state.b_slots[0]),
                                       DeviceArray<A>(state.b_slots[1])};
  // Other types than in CheckLoss, with the same values.
  Batch<T> batch = device.batch;
  batch.inputs = float_x.data();
  batch.input_type = kElementType<float>;
  batch.labels = narrow_labels.data();
  batch.labels_are_int64 = false;
  const DeviceMemory blocks(batch, c.logits);
  const DeviceArray<A> loss(c.size), dx(c.size * c.width);
  const DeviceArray<Hyperparameters> hyper({kHyper});
  const DeviceArray<double> factors({kDecays[0], kDecays[1]});
  DeviceUpdate<T> update;
  update.rule = rule;
  update.hyper = hyper.data();
  if (decays) update.decays = factors.data();
  update.weights = device.w.data();
  update.biases = c.biases ? device.b.data() : nullptr;
  for (int s = 0; s < NumSlots(rule); ++s) {
    update.weight_slots[s] = slots[s].data();
    update.bias_slots[s] = bias_slots[s].data();
  }
  const A* grads = device.grads.data();
  const LossOutputs<T> outputs = {loss.data(), dx.data(), grads};
  if (decays) {
    results.error =
        TrainStep(batch, blocks.memory, outputs, grads, update, CheckStream());
  } else {
    results.error = Forward(batch, blocks.memory, outputs, CheckStream());
    results.error +=
        ApplyUpdate(batch, blocks.memory, grads, update, CheckStream());
  }
  state.w = device.w.Download();
  if (c.biases) state.b = device.b.Download();
  for (int s = 0; s < NumSlots(rule); ++s) {
    state.w_slots[s] = slots[s].Download();
    state.b_slots[s] = bias_slots[s].Download();
  }
  results.dx = dx.Download();
  return results;
}

// `c` has its reference.
template <typename T>
void CheckUpdate(const LossCase<T>& c, UpdateRule rule, bool decays) {
  const UpdateResults<T> got = RunUpdate(c, rule, decays);
  const UpdateResults<T> again = RunUpdate(c, rule, decays);
  const ReferenceSums& sums = c.want;
  State<double> want =
      MakeState<double>(rule, c.tree.num_weight_rows(), c.width, ToDoubles(c.w),
                        ToDoubles(c.Biases()));
  if (decays) {
    want.decay = kDecays[0];
    want.bias_decay = kDecays[1];
  }
  ReferenceUpdateRows(sums.touched, sums.dw, sums.db, c.width, rule, &want);
  std::vector<double> dx = sums.dx;
  for (size_t i = 0; i < dx.size(); ++i) dx[i] *= c.grads[i / c.width];
  Errors weights, biases, slots, inputs;
  weights.AddAll(got.state.w, want.w);
  biases.AddAll(got.state.b, want.b);
  inputs.AddAll(got.dx, dx);
  for (int s = 0; s < NumSlots(rule); ++s) {
    slots.AddAll(got.state.w_slots[s], want.w_slots[s]);
    slots.AddAll(got.state.b_slots[s], want.b_slots[s]);
  }
  c.Report(TraitsOf(rule).name + std::string(decays ? ", decay" : ""),
           got.error,
           {{"dx", inputs}, {"w", weights}, {"b", biases}, {"slots", slots}},
           SameState(got.state, again.state) && SameBits(got.dx, again.dx));
}

template <typename T>
void CheckUpdates(const LossCase<T>& c) {
  for (const RuleTraits& traits : kUpdateRules) {
    if (!RunsOnGpus(traits.rule)) continue;
    // The other rules differ in the function of one number alone.
    const bool other = traits.rule != UpdateRule::kSgd && !traits.slots_per_row;
    if (!other || std::is_same<T, float>::value) {
      CheckUpdate(c, traits.rule, false);
    }
    if (traits.rule == UpdateRule::kRowwiseAdagrad ||
        (traits.rule == UpdateRule::kAdam && std::is_same<T, float>::value)) {
      CheckUpdate(c, traits.rule, true);
    }
  }
}

// A step on equal rows: all logits are equal, so gradients are known exactly,
// and so are all bits where `classes` is a power of two. They are small beside
// the weights, which rounding to nearest would leave where they are. `classes`
// decides which kernel rounds, `width` with which accesses.
inline void CheckRounding(int64_t classes, int64_t width, Precision precision) {
  const int64_t label = 3;
  const OwnedTree owned = FlatTree(classes);
  const DeviceTree tree(owned);
  const bfloat16 one = FromDouble<bfloat16>(1);
  const std::vector<bfloat16> w(classes * width, one), b(classes, one),
      x(width, one);
  const float grad = 1.0f / 64, rate = 0.125f;
  std::vector<std::vector<bfloat16>> results;
  bool good = true;
  for (uint64_t seed : {7, 7, 8}) {
    const DeviceArray<bfloat16> device_w(w), device_b(b), device_x(x);
    const DeviceArray<int64_t> labels(std::vector<int64_t>{label});
    const DeviceArray<float> grads(std::vector<float>{grad}), loss(1);
    Batch<bfloat16> batch =
        BatchOf(tree, device_w, &device_b, device_x, 1, width, precision);
    batch.labels = labels.data();
    const DeviceMemory blocks(batch, 0);
    const Memory& memory = blocks.memory;
    const DeviceArray<Hyperparameters> hyper({Hyperparameters{rate}});
    const DeviceArray<uint64_t> device_seed(std::vector<uint64_t>{seed});
    DeviceUpdate<bfloat16> update;
    update.hyper = hyper.data();
    update.weights = device_w.data();
    update.biases = device_b.data();
    update.stochastic = true;
    update.seed = device_seed.data();
    good =
        good &&
        Forward<bfloat16>(batch, memory, {loss.data()}, CheckStream()) == "" &&
        ApplyUpdate(batch, memory, grads.data(), update, CheckStream()) == "";
    results.push_back(device_w.Download());
    for (int64_t row = 0; row < classes; ++row) {
      const double p = 1.0 / classes - (row == label ? 1 : 0);
      const double exact = 1 - rate * grad * p;
      // The numbers of a bfloat16 around it: 2^-8 apart below 1, 2^-7 above.
      const double step = exact < 1 ? 0x1p-8 : 0x1p-7;
      const double low = std::floor(exact / step) * step;
      double mean = 0;
      for (int64_t d = 0; d < width; ++d) {
        const bfloat16 result = results.back()[row * width + d];
        const double value = ToDouble(result);
        good = good && (value == low || value == low + step);
        // Neighbours share 32 bits.
        const uint32_t random = RandomBits(WeightCounter(seed, row) +
                                           static_cast<uint32_t>(d / 2)) >>
                                (d % 2 * 16);
        const uint32_t bits = FloatBits(static_cast<float>(exact));
        good = good && (classes % 2 != 0 ||
                        result.bits == (bits + (random & 0xffff)) >> 16);
        mean += value / width;
      }
      // The deviation of the mean is at most half a step over sqrt(width).
      good = good && std::fabs(mean - exact) < 2.5 * step / std::sqrt(width);
    }
  }
  good = good && SameBits(results[0], results[1]) &&
         !SameBits(results[0], results[2]);
  Line(LineName<bfloat16>("flat K=" + std::to_string(classes), 1, width,
                          precision, "stochastic rounding"),
       good, "");
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_UPDATE_CHECK_H_
