// Applies an update rule to the rows of a gradient that is still in the cache.
//
// Costs one read and one write of the weights and of the slots. What a row
// becomes depends on its own gradient only, and the random bits of a rounding
// on the seed and the element's index: not on threads or on the order of rows.

#ifndef TF_HSM_CC_CORE_UPDATE_UPDATE_ROWS_INL_H_
#define TF_HSM_CC_CORE_UPDATE_UPDATE_ROWS_INL_H_

#include <cstdint>

#include "cc/core/simd/tile-inl.h"
#include "cc/core/simd/vector-inl.h"
#include "cc/core/update/random_bits.h"
#include "cc/core/update/update.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Rounds away from zero with the probability of the bits that are cut off.
TF_HSM_INLINE Bits16 NarrowStochastically(Floats v, Bits32 random) {
  const Bits32 bits = BitCast<Bits32>(v);
  const Bits32 rounded = bits + (random & 0xffff);
  const Bits32 nan = bits | 0x400000;
  const Bits32 exponent = bits & 0x7f800000;
  const Bits32 is_nan = (bits & 0x7fffffff) > 0x7f800000;
  const Bits32 special = is_nan ? nan : bits;
  return __builtin_convertvector(
      (exponent == 0x7f800000 ? special : rounded) >> 16, Bits16);
}

// The vectors that rules.h computes with.
template <typename A>
struct VectorMath {
  using Scalar = A;
  using Number = Vector<A>;
  static TF_HSM_INLINE Number Sqrt(Number v) { return TF_HSM_ISA::Sqrt(v); }
  static TF_HSM_INLINE A Sqrt(A v) { return Sqrt(Splat<A>(v))[0]; }
};
template <typename T>
using VectorStep = RuleStep<VectorMath<Accumulator<T>>>;

// The state of one call for one row of numbers (or of biases).
template <typename T>
struct RowUpdate {
  using A = Accumulator<T>;
  T* values;
  A* slots[kMaxSlots];
  A rate;
  A decay;
  bool stochastic;
  uint32_t random;  // the counter of the first number
};

// One step of `rule` on count numbers whose gradient is g.
template <UpdateRule rule, typename T>
TF_HSM_INLINE void UpdateNumbers(const RowUpdate<T>& row,
                                 const VectorStep<T>& math,
                                 const Accumulator<T>* g, int64_t count) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  constexpr int num_slots = RuleConstant<rule>::number_slots;
  auto step = [&](int64_t i, auto load,
                  auto store) __attribute__((always_inline)) {
    Vector<A> slots[kMaxSlots] = {};
    for (int s = 0; s < num_slots; ++s) slots[s] = load(row.slots[s] + i);
    Vector<A> change = math.template Change<rule>(row.rate, load(g + i), slots);
    for (int s = 0; s < num_slots; ++s) store(row.slots[s] + i, slots[s]);
    Vector<A> value = load(row.values + i);
    if (row.decay != 0) change += value * row.decay;
    value -= change;
    if constexpr (sizeof(T) == sizeof(bfloat16)) {
      if (row.stochastic) {
        Bits32 counter = Bits32{} + static_cast<uint32_t>(row.random + i);
        for (int lane = 0; lane < lanes; ++lane) counter[lane] += lane;
        const Bits16 bits = NarrowStochastically(value, RandomBits(counter));
        T rounded[lanes];
        __builtin_memcpy(rounded, &bits, sizeof(bits));
        const int64_t left = count - i;
        __builtin_memcpy(row.values + i, rounded,
                         (left < lanes ? left : lanes) * sizeof(T));
        return;
      }
    }
    store(row.values + i, value);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    step(
        i, [](const auto* p) __attribute__((always_inline)) { return Load(p); },
        [](auto* p, Vector<A> v)
            __attribute__((always_inline)) { Store(p, v); });
  }
  if (i < count) {
    const int64_t rest = count - i;
    step(
        i,
        [rest](const auto* p)
            __attribute__((always_inline)) { return LoadPartial(p, rest); },
        [rest](auto* p, Vector<A> v)
            __attribute__((always_inline)) { StorePartial(p, v, rest); });
  }
}

template <typename A>
A MeanSquare(const A* g, int64_t count) {
  constexpr int lanes = kLanes<A>;
  Vector<A> sum = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum += Load(g + i) * Load(g + i);
  if (i < count) {
    const Vector<A> last = LoadPartial(g + i, count - i);
    sum += last * last;
  }
  return count == 0 ? 0 : SumLanes<A>(sum) / static_cast<A>(count);
}

// The rate of a row whose gradient has this mean square; changes its slots.
template <UpdateRule rule, typename T>
TF_HSM_INLINE Accumulator<T> RowRate(const Update<T>& update,
                                     const VectorStep<T>& math, int64_t row,
                                     Accumulator<T> mean_square) {
  constexpr int num_slots = RuleConstant<rule>::row_slots;
  Accumulator<T> slots[kMaxSlots] = {};
  for (int s = 0; s < num_slots; ++s) slots[s] = update.weight_slots[s][row];
  const auto rate = math.template RowRate<rule>(mean_square, slots);
  for (int s = 0; s < num_slots; ++s) update.weight_slots[s][row] = slots[s];
  return rate;
}

// Updates the rows [first, first + rows) of the weights by dw [rows, width].
template <typename T>
void UpdateWeights(const Update<T>& update, int64_t first, int64_t rows,
                   int64_t width, const Accumulator<T>* dw) {
  const VectorStep<T> math(update.hyper);
  WithRule(update.rule, [&](auto constant) __attribute__((always_inline)) {
    constexpr UpdateRule rule = constant.value;
    for (int64_t r = first; r < first + rows; ++r, dw += width) {
      RowUpdate<T> row = {update.weights + r * width,
                          {},
                          math.rate,
                          static_cast<Accumulator<T>>(update.decay),
                          update.stochastic,
                          WeightCounter(update.seed, r)};
      if constexpr (constant.row_slots > 0) {
        row.rate = RowRate<rule>(update, math, r, MeanSquare(dw, width));
      }
      for (int s = 0; s < constant.number_slots; ++s) {
        row.slots[s] = update.weight_slots[s] + r * width;
      }
      UpdateNumbers<rule>(row, math, dw, width);
    }
  });
}

// Updates the rows first and first + 1 of the weights by g and -g; leaves -g in
// g.
template <typename T>
void UpdatePair(const Update<T>& update, int64_t first, int64_t width,
                Accumulator<T>* g) {
  UpdateWeights(update, first, 1, width, g);
  for (int64_t d = 0; d < width; ++d) g[d] = -g[d];
  UpdateWeights(update, first + 1, 1, width, g);
}

// Updates the biases of the rows [first, first + rows) by db [rows].
template <typename T>
void UpdateBiases(const Update<T>& update, int64_t first, int64_t rows,
                  const Accumulator<T>* db) {
  if (update.biases == nullptr) return;
  const VectorStep<T> math(update.hyper);
  RowUpdate<T> biases = {
      update.biases + first,
      {},
      math.rate,
      static_cast<Accumulator<T>>(update.bias_decay),
      update.stochastic,
      BiasCounter(update.seed) + static_cast<uint32_t>(first)};
  WithRule(BiasRule(update.rule),
           [&](auto constant) __attribute__((always_inline)) {
             for (int s = 0; s < constant.number_slots; ++s) {
               biases.slots[s] = update.bias_slots[s] + first;
             }
             UpdateNumbers<constant.value>(biases, math, db, rows);
           });
}

// Whether the update is a rate per row times the gradient dz^T x, without a
// decay, and with rates that are known before that product is made: it can then
// be added to the weights without being stored. With one example, the mean
// square of a row of the gradient is dz^2 times that of x.
template <typename T>
bool IsScaledGradient(const Update<T>& update, int64_t examples) {
  if constexpr (sizeof(T) != sizeof(Accumulator<T>)) return false;
  return ScalesGradient(update.rule) && update.decay == 0 &&
         (examples == 1 || !TraitsOf(update.rule).slots_per_row);
}

// What FillRates asks of the first example's inputs.
template <typename T>
Accumulator<T> InputSquare(const Update<T>& update, const Accumulator<T>* x,
                           int64_t width) {
  return TraitsOf(update.rule).slots_per_row ? MeanSquare(x, width) : 0;
}

// The rates of rows in an update that IsScaledGradient; changes their slots.
// dz of row k and the first example is dz[k * row_stride].
template <typename T>
void FillRates(const Update<T>& update, int64_t first, int64_t rows,
               Accumulator<T> input_square, const Accumulator<T>* dz,
               int64_t row_stride, Accumulator<T>* rates) {
  const VectorStep<T> math(update.hyper);
  WithRule(update.rule, [&](auto constant) __attribute__((always_inline)) {
    for (int64_t k = 0; k < rows; ++k) {
      const Accumulator<T> factor = dz[k * row_stride];
      rates[k] = RowRate<constant.value>(update, math, first + k,
                                         factor * factor * input_square);
    }
  });
}

constexpr int64_t kMaxScaledRows = 96;

// Multiplies dz by the negative rates of such an update of at most
// kMaxScaledRows rows: dz(k, m), of row k and example m, is
// data[k * row_stride + m * example_stride]. x is the first example's inputs.
template <typename T>
void ScaleByRates(const Update<T>& update, int64_t first, int64_t rows,
                  int64_t examples, const Accumulator<T>* x, int64_t width,
                  Accumulator<T>* dz, int64_t row_stride,
                  int64_t example_stride) {
  Accumulator<T> rates[kMaxScaledRows];
  FillRates(update, first, rows, InputSquare(update, x, width), dz, row_stride,
            rates);
  for (int64_t m = 0; m < examples; ++m) {
    for (int64_t k = 0; k < rows; ++k) {
      dz[k * row_stride + m * example_stride] *= -rates[k];
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_UPDATE_ROWS_INL_H_
