// The nodes of a label tree: each row has a sigmoid of its own.
//
//   p_k = 1 / (1 + exp(-z_k))      -log p_k = log(1 + exp(-z_k))
//
// Every exponential is that of -|z|, which cannot overflow; 1 + e is never
// rounded before its logarithm, which is exact to a few units in the last place
// however small it is.

#ifndef TF_HSM_CC_CORE_GROUPS_SIGMOID_INL_H_
#define TF_HSM_CC_CORE_GROUPS_SIGMOID_INL_H_

#include <cstdint>

#include "cc/core/groups/group_rows.h"
#include "cc/core/groups/logits-inl.h"
#include "cc/core/simd/exp_log-inl.h"
#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// log(1 + e) for e in [0, 1]: 2 atanh(s) with s = e / (2 + e), at most 1/3.
template <typename A>
TF_HSM_INLINE Vector<A> Log1p(Vector<A> e) {
  constexpr int kTerms = sizeof(A) == sizeof(float) ? 7 : 16;
  const Vector<A> s = e / (2 + e);
  const Vector<A> s2 = s * s;
  Vector<A> series = {};
#pragma GCC unroll 16
  for (int i = kTerms; i > 0; --i) {
    series = (series + static_cast<A>(1.0 / (2 * i + 1))) * s2;
  }
  return 2 * s + 2 * s * series;
}

// exp(-|z|)
template <typename A>
TF_HSM_INLINE Vector<A> ExpOfMinusAbs(Vector<A> z) {
  return Exp<A>(z > 0 ? -z : z);
}

// Calls map(vector) for the numbers of z and stores what it returns; the lanes
// past the end are zeros, and not stored.
template <typename A, typename Map>
TF_HSM_INLINE void MapVectors(A* z, int64_t count, Map map) {
  int64_t k = 0;
  for (; k + kLanes<A> <= count; k += kLanes<A>) Store(z + k, map(Load(z + k)));
  if (k < count) {
    const int64_t rest = count - k;
    StorePartial(z + k, map(LoadPartial(z + k, rest)), rest);
  }
}

// z[k] = log p_k of scale z[k].
template <typename A>
void LogSigmoid(int64_t count, A scale, A* z) {
  MapVectors(z, count, [scale](Vector<A> v) __attribute__((always_inline)) {
    v = v * scale;
    const Vector<A> below = v > 0 ? Vector<A>{} : v;
    return below - Log1p<A>(ExpOfMinusAbs<A>(v));
  });
}

// z[k] = p_k; returns the sum of -log(1 - p_k).
template <typename A>
A SigmoidAndLoss(int64_t count, A* z) {
  Vector<A> sum = {};
  int64_t left = count;
  MapVectors(z, count, [&](Vector<A> v) __attribute__((always_inline)) {
    const Vector<A> e = ExpOfMinusAbs<A>(v);
    const Vector<A> loss = (v > 0 ? v : Vector<A>{}) + Log1p<A>(e);
    if (left >= kLanes<A>) {
      sum += loss;
    } else {
      A lanes[kLanes<A>];
      Store(lanes, loss);
      for (int64_t i = left; i < kLanes<A>; ++i) lanes[i] = 0;
      sum += Load(lanes);
    }
    left -= kLanes<A>;
    const Vector<A> p = 1 / (1 + e);
    return v > 0 ? p : e * p;
  });
  return SumLanes<A>(sum);
}

// The binary cross-entropies of the rows of one group for some examples:
//
//   losses[m] = sum over the rows k of  -log(k is positive for m ? p_k : 1 -
//   p_k) dz[m][k] = p_k - [k is positive for m]
//
// where example m has the positive rows [starts[m], starts[m + 1]) of
// `positives`. dz is [num_examples, rows]. Cost: the weights are read once, 2 M
// K width FLOP, and one pass over the logits in the cache.
template <typename T>
void LabelLosses(const GroupRows<T>& in, const int64_t* starts,
                 const int64_t* positives, Accumulator<T>* losses,
                 Accumulator<T>* dz) {
  using A = Accumulator<T>;
  const int64_t rows = in.group_offsets[1] - in.group_offsets[0];
  GroupLogits(in, rows, dz, rows);
  for (int64_t m = 0; m < in.num_examples; ++m) {
    A* z = dz + m * rows;
    // 1 - p of z is p of -z, and so the positive rows are those of -z.
    auto flip = [&] {
      for (int64_t i = starts[m]; i < starts[m + 1]; ++i) {
        z[positives[i]] = -z[positives[i]];
      }
    };
    flip();
    losses[m] = SigmoidAndLoss(rows, z);
    flip();
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_SIGMOID_INL_H_
