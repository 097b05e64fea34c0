// Where the gradient of a touched row goes: out, or at once into the row.
//
// The rules are those of cc/core/update/update.h, one warp per row. An update
// costs one read and one write of the row and of its slots. What a row becomes
// depends on its own gradient only.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_
#define TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_

#include <cstdint>

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

// 32 bits from a counter, by the finalizer of MurmurHash3, and from one of 64
// bits, by that of SplitMix64: the bits of the CPU's rounding.
TF_HSM_DEVICE uint32_t RandomBits(uint32_t counter) {
  counter ^= counter >> 16;
  counter *= 0x85ebca6bu;
  counter ^= counter >> 13;
  counter *= 0xc2b2ae35u;
  return counter ^ (counter >> 16);
}
TF_HSM_DEVICE uint32_t RandomBits64(uint64_t counter) {
  counter = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9u;
  counter = (counter ^ (counter >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(counter >> 32);
}

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

// One step of the rule on a number with the gradient g: returns its new value.
// Slots are those of the number; row-wise Adagrad's is part of `rate` already.
template <typename A>
TF_HSM_DEVICE A NewValue(UpdateRule rule, const Hyperparameters& hyper, A rate,
                         A g, A value, A* slot_0, A* slot_1) {
  const A epsilon = static_cast<A>(hyper.epsilon);
  if (rule == UpdateRule::kAdagrad) {
    const A sum = *slot_0 + g * g;
    *slot_0 = sum;
    return value - rate * g / Sqrt(sum + epsilon);
  }
  if (rule == UpdateRule::kAdam) {
    const A mean = *slot_0 + (g - *slot_0) * static_cast<A>(1 - hyper.beta_1);
    const A square =
        *slot_1 + (g * g - *slot_1) * static_cast<A>(1 - hyper.beta_2);
    *slot_0 = mean;
    *slot_1 = square;
    return value - rate * mean / (Sqrt(square) + epsilon);
  }
  return value - rate * g;
}

// Applies the update to a row whose gradient is g [width], by all lanes of a
// warp; db is that of its bias.
template <typename T>
TF_HSM_DEVICE void UpdateRow(const Update<T>& update, int64_t row,
                             const Accumulator<T>* g, Accumulator<T> db,
                             int64_t width) {
  using A = Accumulator<T>;
  A rate = static_cast<A>(update.hyper.learning_rate);
  const bool row_wise = update.rule == UpdateRule::kRowwiseAdagrad;
  const bool slots = update.rule != UpdateRule::kSgd;
  const bool two_slots = update.rule == UpdateRule::kAdam;
  if (row_wise) {
    A squares = 0;
    for (int64_t d = Lane(); d < width; d += kWarp) squares += g[d] * g[d];
    const A sum =
        update.weight_slots[0][row] + WarpSum(squares) / static_cast<A>(width);
    SyncWarp();  // all have read it
    if (Lane() == 0) update.weight_slots[0][row] = sum;
    rate /= Sqrt(sum + static_cast<A>(update.hyper.epsilon));
  }
  const uint32_t random =
      RandomBits64(update.seed + static_cast<uint64_t>(2 * row));
  for (int64_t d = Lane(); d < width; d += kWarp) {
    const int64_t at = row * width + d;
    A* slot_0 = slots && !row_wise ? update.weight_slots[0] + at : nullptr;
    A* slot_1 = two_slots ? update.weight_slots[1] + at : nullptr;
    const A value = NewValue(update.rule, update.hyper, rate, g[d],
                             Widen(update.weights[at]), slot_0, slot_1);
    update.weights[at] =
        Round<T>(value, update.stochastic, random + static_cast<uint32_t>(d));
  }
  if (update.biases == nullptr || Lane() != 0) return;
  // A row of one number: both kinds of Adagrad are the same.
  const A value =
      NewValue(row_wise ? UpdateRule::kAdagrad : update.rule, update.hyper,
               static_cast<A>(update.hyper.learning_rate), db,
               static_cast<A>(Widen(update.biases[row])),
               slots ? update.bias_slots[0] + row : nullptr,
               two_slots ? update.bias_slots[1] + row : nullptr);
  update.biases[row] =
      Round<T>(value, update.stochastic,
               RandomBits64(update.seed + 1) + static_cast<uint32_t>(row));
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
