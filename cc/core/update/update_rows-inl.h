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
#include "cc/core/update/update.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// 32 bits per lane from a counter, by the finalizer of MurmurHash3.
TF_HSM_INLINE Bits32 RandomBits(Bits32 counter) {
  counter ^= counter >> 16;
  counter *= 0x85ebca6bu;
  counter ^= counter >> 13;
  counter *= 0xc2b2ae35u;
  return counter ^ (counter >> 16);
}

// The same of one number of 64 bits (the finalizer of SplitMix64).
TF_HSM_INLINE uint32_t RandomBits(uint64_t counter) {
  counter = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9u;
  counter = (counter ^ (counter >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(counter >> 32);
}

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

template <UpdateRule rule>
struct RuleConstant {
  static constexpr UpdateRule value = rule;
};

// The state of one call for one row of numbers (or of biases).
template <typename T>
struct RowUpdate {
  using A = Accumulator<T>;
  T* values;
  A* slots[2];
  A rate;
  bool stochastic;
  uint32_t random;  // what the counters of the row begin with
};

// One step of `rule` on count numbers whose gradient is g.
template <typename T, UpdateRule rule>
TF_HSM_INLINE void UpdateNumbers(const RowUpdate<T>& row,
                                 const Hyperparameters& hyper,
                                 const Accumulator<T>* g, int64_t count) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  const A epsilon = static_cast<A>(hyper.epsilon);
  const A keep_1 = static_cast<A>(1 - hyper.beta_1);
  const A keep_2 = static_cast<A>(1 - hyper.beta_2);
  auto step = [&](int64_t i, auto load,
                  auto store) __attribute__((always_inline)) {
    const Vector<A> gradient = load(g + i);
    Vector<A> change;
    if constexpr (rule == UpdateRule::kAdagrad) {
      const Vector<A> sum = load(row.slots[0] + i) + gradient * gradient;
      store(row.slots[0] + i, sum);
      change = row.rate * gradient / Sqrt(sum + epsilon);
    } else if constexpr (rule == UpdateRule::kAdam) {
      Vector<A> mean = load(row.slots[0] + i);
      Vector<A> square = load(row.slots[1] + i);
      mean += (gradient - mean) * keep_1;
      square += (gradient * gradient - square) * keep_2;
      store(row.slots[0] + i, mean);
      store(row.slots[1] + i, square);
      change = row.rate * mean / (Sqrt(square) + epsilon);
    } else {
      change = row.rate * gradient;
    }
    const Vector<A> value = load(row.values + i) - change;
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

// Calls `call` with the rule as a type.
template <typename Call>
TF_HSM_INLINE void WithRule(UpdateRule rule, Call call) {
  switch (rule) {
    case UpdateRule::kSgd:
      return call(RuleConstant<UpdateRule::kSgd>());
    case UpdateRule::kAdagrad:
      return call(RuleConstant<UpdateRule::kAdagrad>());
    case UpdateRule::kRowwiseAdagrad:
      return call(RuleConstant<UpdateRule::kRowwiseAdagrad>());
    case UpdateRule::kAdam:
      return call(RuleConstant<UpdateRule::kAdam>());
  }
}

// Updates the rows [first, first + rows) of the weights by dw [rows, width].
template <typename T>
void UpdateWeights(const Update<T>& update, int64_t first, int64_t rows,
                   int64_t width, const Accumulator<T>* dw) {
  using A = Accumulator<T>;
  const A rate = static_cast<A>(update.hyper.learning_rate);
  const A epsilon = static_cast<A>(update.hyper.epsilon);
  WithRule(update.rule, [&](auto constant) {
    constexpr UpdateRule rule = decltype(constant)::value;
    for (int64_t r = first; r < first + rows; ++r, dw += width) {
      RowUpdate<T> row = {
          update.weights + r * width,
          {},
          rate,
          update.stochastic,
          RandomBits(update.seed + static_cast<uint64_t>(2 * r))};
      if constexpr (rule == UpdateRule::kRowwiseAdagrad) {
        A& sum = update.weight_slots[0][r];
        sum += MeanSquare(dw, width);
        row.rate = rate / Sqrt(Splat<A>(sum + epsilon))[0];
      } else {
        for (int s = 0; s < NumSlots(rule); ++s) {
          row.slots[s] = update.weight_slots[s] + r * width;
        }
      }
      UpdateNumbers<T, rule>(row, update.hyper, dw, width);
    }
  });
}

// The same of the rows first and first + 1, by g and -g, to which it sets g.
template <typename T>
void UpdatePair(const Update<T>& update, int64_t first, int64_t width,
                Accumulator<T>* g) {
  UpdateWeights(update, first, 1, width, g);
  for (int64_t d = 0; d < width; ++d) g[d] = -g[d];
  UpdateWeights(update, first + 1, 1, width, g);
}

// The same of the biases, by db [rows].
template <typename T>
void UpdateBiases(const Update<T>& update, int64_t first, int64_t rows,
                  const Accumulator<T>* db) {
  if (update.biases == nullptr) return;
  RowUpdate<T> biases = {
      update.biases + first,
      {},
      static_cast<Accumulator<T>>(update.hyper.learning_rate),
      update.stochastic,
      RandomBits(update.seed + 1) + static_cast<uint32_t>(first)};
  WithRule(update.rule, [&](auto constant) {
    constexpr UpdateRule rule = decltype(constant)::value;
    for (int s = 0; s < NumSlots(rule); ++s) {
      biases.slots[s] = update.bias_slots[s] + first;
    }
    // Rows of one number: both kinds of Adagrad are the same.
    constexpr UpdateRule of_numbers =
        rule == UpdateRule::kRowwiseAdagrad ? UpdateRule::kAdagrad : rule;
    UpdateNumbers<T, of_numbers>(biases, update.hyper, db, rows);
  });
}

// Whether the rule is a rate per row times the gradient dz^T x, with rates that
// are known before that product is made: it can then be added to the weights
// without being stored. Of one example, the mean square of a gradient's row is
// dz^2 times that of x.
template <typename T>
bool IsLinear(const Update<T>& update, int64_t examples) {
  if constexpr (sizeof(T) != sizeof(Accumulator<T>)) return false;
  return update.rule == UpdateRule::kSgd ||
         (update.rule == UpdateRule::kRowwiseAdagrad && examples == 1);
}

// Turns dz into the factors of that addition: dz(k, m), of row k and example m,
// is data[k * row_stride + m * example_stride]. x is the first example's
// inputs.
template <typename T>
void MakeLinear(const Update<T>& update, int64_t first, int64_t rows,
                int64_t examples, const Accumulator<T>* x, int64_t width,
                Accumulator<T>* dz, int64_t row_stride,
                int64_t example_stride) {
  using A = Accumulator<T>;
  const A rate = static_cast<A>(update.hyper.learning_rate);
  if (update.rule == UpdateRule::kSgd) {
    for (int64_t m = 0; m < examples; ++m) {
      for (int64_t k = 0; k < rows; ++k) {
        dz[k * row_stride + m * example_stride] *= -rate;
      }
    }
    return;
  }
  const A epsilon = static_cast<A>(update.hyper.epsilon);
  const A mean_square = MeanSquare(x, width);
  A* sums = update.weight_slots[0] + first;
  for (int64_t k = 0; k < rows; ++k) {
    A& factor = dz[k * row_stride];
    sums[k] += factor * factor * mean_square;
    factor *= -rate / Sqrt(Splat<A>(sums[k] + epsilon))[0];
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_UPDATE_UPDATE_ROWS_INL_H_
