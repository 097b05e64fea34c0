// The element types of weights and inputs, without any library behind them.
//
// bfloat16 and half are storage only: every kernel widens them to float when it
// loads and rounds to nearest even when it stores.

#ifndef TF_HSM_CC_CORE_BASE_TYPES_H_
#define TF_HSM_CC_CORE_BASE_TYPES_H_

#include <cstdint>
#include <cstring>

#include "cc/core/base/host_device.h"

namespace tf_hsm {

struct bfloat16 {
  uint16_t bits;
};

struct half {
  uint16_t bits;
};

// Every element type: here, in TensorFlow's C++, and in the attributes of its
// ops. TF_HSM_ELEMENT_TYPES(X) expands to X(core type, TensorFlow's, name) for
// each. What is made once per type is made from this list.
#define TF_HSM_ELEMENT_TYPES(X)            \
  X(float, float, "float")                 \
  X(bfloat16, Eigen::bfloat16, "bfloat16") \
  X(half, Eigen::half, "half")             \
  X(double, double, "double")

// Makes the template `function`, declared in a header, for an element type.
#define TF_HSM_MAKE(function, T) template decltype(function<T>) function<T>;

// The type in which products of T are summed.
template <typename T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::type;

// A number as its accumulator, which is exact.
TF_HSM_HOST_DEVICE float ToAccumulator(float x) { return x; }
TF_HSM_HOST_DEVICE double ToAccumulator(double x) { return x; }
TF_HSM_HOST_DEVICE float ToAccumulator(bfloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
TF_HSM_HOST_DEVICE float ToAccumulator(half x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  uint32_t bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00) bits = (magnitude << 13) | 0x7f800000;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  if (magnitude < 0x400) memcpy(&bits, &subnormal, sizeof(bits));
  bits |= (x.bits & 0x8000u) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rows of sorted inputs are padded to a multiple of this many elements, the
// widest vector of any ISA, and the padding holds zeros. They do not lie a
// large power of two apart, where they would share few sets of the first cache.
constexpr int64_t kPadding = 16;

constexpr int64_t Padded(int64_t width) {
  const int64_t padded = (width + kPadding - 1) / kPadding * kPadding;
  return padded > 0 && padded % 256 == 0 ? padded + kPadding : padded;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_TYPES_H_
