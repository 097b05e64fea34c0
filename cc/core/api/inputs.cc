#include "cc/core/api/inputs.h"

#include <algorithm>
#include <cstring>

#include "cc/core/base/types.h"

namespace tf_hsm {
namespace {

float Widen(float x) { return x; }
double Widen(double x) { return x; }
float Widen(bfloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
float Widen(half x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  uint32_t bits = (magnitude << 13) + (112u << 23);
  if (magnitude >= 0x7c00) bits = (magnitude << 13) | 0x7f800000;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  if (magnitude < 0x400) std::memcpy(&bits, &subnormal, sizeof(bits));
  bits |= (x.bits & 0x8000u) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <typename X>
void Prefetch(const X* row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(X);
  for (int64_t d = 0; d < width; d += kLine) __builtin_prefetch(row + d);
}

}  // namespace

template <typename X, typename A>
void PackInputs(const int64_t* order, int64_t count, const X* x, int64_t width,
                const Parallel& parallel, A* packed) {
  constexpr int64_t kRows = 64;
  // Rows lie anywhere in memory, and are asked for so many before their turn.
  constexpr int64_t kAhead = 2;
  const int64_t padded = Padded(width);
  // Any number of examples may have no numbers.
  const int64_t items = padded == 0 ? 0 : (count + kRows - 1) / kRows;
  auto row = [&](int64_t at) {
    return x + (order == nullptr ? at : order[at]) * width;
  };
  parallel(items, [&](int64_t i) {
    const int64_t end = std::min((i + 1) * kRows, count);
    for (int64_t at = i * kRows; at < end; ++at) {
      const X* from = row(at);
      if (at + kAhead < end) Prefetch(row(at + kAhead), width);
      A* to = packed + at * padded;
      for (int64_t d = 0; d < width; ++d) to[d] = Widen(from[d]);
      std::fill(to + width, to + padded, A(0));
    }
  });
}

#define TF_HSM_INSTANTIATE(T, ...)                                     \
  template void PackInputs(const int64_t*, int64_t, const T*, int64_t, \
                           const Parallel&, float*);                   \
  template void PackInputs(const int64_t*, int64_t, const T*, int64_t, \
                           const Parallel&, double*);
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)
#undef TF_HSM_INSTANTIATE

}  // namespace tf_hsm
