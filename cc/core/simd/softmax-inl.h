// The pieces of a softmax over one row of logits, and a work item's memory.

#ifndef TF_HSM_CC_CORE_SIMD_SOFTMAX_INL_H_
#define TF_HSM_CC_CORE_SIMD_SOFTMAX_INL_H_

#include <stdlib.h>

#include <cstdint>

#include "cc/core/base/no_memory.h"
#include "cc/core/simd/exp_log-inl.h"
#include "cc/core/simd/vector-inl.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Memory of a work item, kept by its thread for the next one. Throws
// std::bad_alloc.
template <typename A>
A* Scratch(int64_t count) {
  struct Buffer {
    A* data = nullptr;
    int64_t size = 0;
    ~Buffer() { __builtin_free(data); }
  };
  static thread_local Buffer buffer;
  if (count > buffer.size) {
    __builtin_free(buffer.data);
    buffer.size = 0;
    const int64_t bytes = (count * sizeof(A) + 4095) / 4096 * 4096;
    buffer.data = static_cast<A*>(aligned_alloc(4096, bytes));
    if (buffer.data == nullptr) ThrowNoMemory();
    buffer.size = bytes / static_cast<int64_t>(sizeof(A));
  }
  return buffer.data;
}

template <typename A>
A Max(const A* z, int64_t count) {
  A max = z[0];
  int64_t k = 0;
  if (count >= kLanes<A>) {
    Vector<A> best = Load(z);
    for (k = kLanes<A>; k + kLanes<A> <= count; k += kLanes<A>) {
      const Vector<A> v = Load(z + k);
      best = v > best ? v : best;
    }
    max = MaxLanes<A>(best);
  }
  for (; k < count; ++k) max = z[k] > max ? z[k] : max;
  return max;
}

// e[k] = exp(z[k] - shift); returns their sum. e may be z.
template <typename A>
A ExpAndSum(const A* z, int64_t count, A shift, A* e) {
  Vector<A> sum = {};
  int64_t k = 0;
  for (; k + kLanes<A> <= count; k += kLanes<A>) {
    const Vector<A> v = Exp<A>(Load(z + k) - shift);
    Store(e + k, v);
    sum += v;
  }
  if (k < count) {
    const int64_t rest = count - k;
    A padded[kLanes<A>];
    Store(padded, Exp<A>(LoadPartial(z + k, rest) - shift));
    for (int64_t i = rest; i < kLanes<A>; ++i) padded[i] = 0;
    __builtin_memcpy(e + k, padded, rest * sizeof(A));
    sum += Load(padded);
  }
  return SumLanes<A>(sum);
}

// z[k] = cap tanh(z[k] / cap).
template <typename A>
void SoftCap(int64_t count, A cap, A* z) {
  int64_t k = 0;
  for (; k + kLanes<A> <= count; k += kLanes<A>) {
    Store(z + k, cap * Tanh<A>(Load(z + k) / cap));
  }
  if (k < count) {
    const int64_t rest = count - k;
    StorePartial(z + k, cap * Tanh<A>(LoadPartial(z + k, rest) / cap), rest);
  }
}

// slopes[k] = the derivative of SoftCap where it is z[k].
template <typename A>
void SoftCapSlopes(const A* z, int64_t count, A cap, A* slopes) {
  for (int64_t k = 0; k < count; ++k) {
    const A share = z[k] / cap;
    slopes[k] = (1 - share) * (1 + share);
  }
}

template <typename A>
void Multiply(const A* factors, int64_t count, A* y) {
  for (int64_t k = 0; k < count; ++k) y[k] *= factors[k];
}

// The logarithm of one value.
template <typename A>
A Log1(A a) {
  return Log<A>(Splat<A>(a))[0];
}

// A maximum that can be subtracted: a group may have begun with logits of
// minus infinity only, which carry no mass.
template <typename A>
A Shift(A max) {
  return max == -static_cast<A>(__builtin_inf()) ? 0 : max;
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_SIMD_SOFTMAX_INL_H_
