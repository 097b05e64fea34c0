// Where the gradient of a touched row goes: out, or at once into the row.
//
// The rules are those of cc/core/update/rules.h, one warp per row. An update
// costs one read and one write of the row and of its slots. What a row becomes
// depends on its own gradient only.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_
#define TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_

#include <cstdint>

#include "cc/core/update/random_bits.h"
#include "cc/core/update/rules.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
struct RowOutput {
  RowGradients<T> gradients;
  Update<T> update;
  bool updates = false;
};

// Rounds to nearest; bfloat16 with `stochastic` away from zero with the
// probability of the bits that are cut off.
template <typename T>
TF_HSM_DEVICE T Round(Accumulator<T> value, bool, uint32_t) {
  return Narrow<T>(value);
}
template <>
TF_HSM_DEVICE bfloat16 Round<bfloat16>(float value, bool stochastic,
                                       uint32_t counter) {
  const uint32_t bits = FloatBits(value);
  if (!stochastic || (bits & 0x7f800000) == 0x7f800000) {
    return Narrow<bfloat16>(value);
  }
  return {static_cast<uint16_t>((bits + (RandomBits(counter) & 0xffff)) >> 16)};
}

// What a RuleStep computes with.
template <typename A>
struct DeviceMath {
  using Scalar = A;
  using Number = A;
  TF_HSM_HOST_DEVICE static A Sqrt(A value) { return gpu::Sqrt(value); }
};

// nvcc takes a host's constexpr function here, but not in a device function.
template <UpdateRule rule>
constexpr UpdateRule kBiasRule = BiasRule(rule);

// Takes a step of the rule on a number with the gradient g. Changes its slots,
// the ones at `at`; returns its new value.
template <UpdateRule rule, typename A>
TF_HSM_DEVICE A NewValue(const Hyperparameters& hyper, A rate, A g, A value,
                         A* const (&slots)[kMaxSlots], int64_t at) {
  constexpr int kSlots = RuleConstant<rule>::number_slots;
  const RuleStep<DeviceMath<A>> step(hyper);
  A own[kMaxSlots];
  TF_HSM_UNROLL
  for (int i = 0; i < kSlots; ++i) own[i] = slots[i][at];
  value -= step.template Change<rule>(rate, g, own);
  TF_HSM_UNROLL
  for (int i = 0; i < kSlots; ++i) slots[i][at] = own[i];
  return value;
}

// The rate of a row, by all lanes of a warp. Changes the slots of the row.
template <UpdateRule rule, typename T>
TF_HSM_DEVICE Accumulator<T> RowRate(const Update<T>& update, int64_t row,
                                     const Accumulator<T>* g, int64_t width) {
  using A = Accumulator<T>;
  const RuleStep<DeviceMath<A>> step(update.hyper);
  if constexpr (RuleConstant<rule>::row_slots == 0) {
    return step.rate;
  } else {
    A squares = 0;
    for (int64_t d = Lane(); d < width; d += kWarp) squares += g[d] * g[d];
    const A mean_square = WarpSum(squares) / static_cast<A>(width);
    A slots[] = {update.weight_slots[0][row]};
    const A rate = step.template RowRate<rule>(mean_square, slots);
    SyncWarp();  // all have read it
    if (Lane() == 0) update.weight_slots[0][row] = slots[0];
    return rate;
  }
}

// Applies the update to a row whose gradient is g [width], by all lanes of a
// warp; db is that of its bias.
template <typename T>
TF_HSM_DEVICE void UpdateRow(const Update<T>& update, int64_t row,
                             const Accumulator<T>* g, Accumulator<T> db,
                             int64_t width) {
  using A = Accumulator<T>;
  A rate = 0;
  WithRule(update.rule, [&](auto rule) {
    rate = RowRate<decltype(rule)::value>(update, row, g, width);
  });
  const uint32_t random = WeightCounter(update.seed, row);
  for (int64_t d = Lane(); d < width; d += kWarp) {
    const int64_t at = row * width + d;
    A value = Widen(update.weights[at]);
    WithRule(update.rule, [&](auto rule) {
      value = NewValue<decltype(rule)::value>(update.hyper, rate, g[d], value,
                                              update.weight_slots, at);
    });
    update.weights[at] =
        Round<T>(value, update.stochastic, random + static_cast<uint32_t>(d));
  }
  if (update.biases == nullptr || Lane() != 0) return;
  A value = Widen(update.biases[row]);
  WithRule(update.rule, [&](auto rule) {
    value = NewValue<kBiasRule<decltype(rule)::value>>(
        update.hyper, static_cast<A>(update.hyper.learning_rate), db, value,
        update.bias_slots, row);
  });
  update.biases[row] =
      Round<T>(value, update.stochastic,
               BiasCounter(update.seed) + static_cast<uint32_t>(row));
}

// `index` counts the touched rows.
template <typename T>
TF_HSM_DEVICE void EmitRow(const RowOutput<T>& out, int64_t row, int64_t index,
                           const Accumulator<T>* g, Accumulator<T> db,
                           int64_t width) {
  if (out.updates) return UpdateRow(out.update, row, g, db, width);
  if (index >= out.gradients.capacity) return;
  for (int64_t d = Lane(); d < width; d += kWarp) {
    out.gradients.dw[index * width + d] = Narrow<T>(g[d]);
  }
  if (out.gradients.db != nullptr && Lane() == 0) {
    out.gradients.db[index] = Narrow<T>(db);
  }
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_
