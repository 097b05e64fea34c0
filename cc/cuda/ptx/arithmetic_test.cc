// Arithmetic, against expectations in wider types.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "cc/cuda/ptx/scalars_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

// No sum, quotient or remainder of T passes its range.
template <typename T>
using Wider =
    typename std::conditional<(sizeof(T) < 8), int64_t, __int128>::type;

template <typename T>
T ShiftedProduct(T a, T b) {
  using U = typename std::make_unsigned<T>::type;
  U sum = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) {
    if (static_cast<U>(b) >> i & 1) sum += static_cast<U>(a) << i;
  }
  return static_cast<T>(sum);
}

template <typename T>
void CheckIntegers(const std::string& type) {
  using W = Wider<T>;
  CheckTwo<T>("add." + type, [](T a, T b, T) { return T(W(a) + W(b)); });
  CheckTwo<T>("sub." + type, [](T a, T b, T) { return T(W(a) - W(b)); });
  CheckTwo<T>("mul.lo." + type,
              [](T a, T b, T) { return ShiftedProduct(a, b); });
  CheckThree<T>("mad.lo." + type, [](T a, T b, T c) {
    return T(W(ShiftedProduct(a, b)) + W(c));
  });
  CheckTwo<T>("div." + type, [](T a, T b, T) {
    return b == 0 ? static_cast<T>(-1) : T(W(a) / W(b));
  });
  CheckTwo<T>("rem." + type,
              [](T a, T b, T) { return b == 0 ? a : T(W(a) % W(b)); });
  CheckTwo<T>("min." + type, [](T a, T b, T) { return std::min(a, b); });
  CheckTwo<T>("max." + type, [](T a, T b, T) { return std::max(a, b); });
  Check<T, T, uint32_t>("shr." + type + " $r, $a, $b;",
                        [](T a, uint32_t count, T) {
                          count = std::min(count, 64u);
                          for (; count > 0; --count) a = a >> 1;
                          return a;
                        });
  Check<T, T, uint32_t>("{ .reg .pred p; setp.gt.u32 p, $b, 9; selp." + type +
                            " $r, $a, $c, p; }",
                        [](T a, uint32_t b, T c) { return b > 9 ? a : c; });
}

void CheckProducts() {
  Check<int64_t, int32_t>(
      "mul.wide.s32 $r, $a, $b;",
      [](int32_t a, int32_t b, int32_t) { return int64_t{a} * b; });
  Check<uint64_t, uint32_t, uint32_t, uint64_t>(
      "mad.wide.u32 $r, $a, $b, $c;",
      [](uint32_t a, uint32_t b, uint64_t c) { return uint64_t{a} * b + c; });
  CheckTwo<int32_t>("mul.hi.s32", [](int32_t a, int32_t b, int32_t) {
    return static_cast<int32_t>((int64_t{a} * b) >> 32);
  });
  CheckTwo<uint64_t>("mul.hi.u64", [](uint64_t a, uint64_t b, uint64_t) {
    // By halves, as on paper.
    const uint64_t a0 = a & 0xffffffff, a1 = a >> 32;
    const uint64_t b0 = b & 0xffffffff, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t other = a0 * b1 + (middle & 0xffffffff);
    return a1 * b1 + (middle >> 32) + (other >> 32);
  });
}

template <typename T>
void CheckFloats(const std::string& type) {
  CheckTwo<T>("add." + type, [](T a, T b, T) { return a + b; });
  CheckTwo<T>("sub." + type, [](T a, T b, T) { return a - b; });
  CheckTwo<T>("mul." + type, [](T a, T b, T) { return a * b; });
  CheckTwo<T>("div.rn." + type, [](T a, T b, T) { return a / b; });
  // Exact in long double, for numbers as short as these.
  CheckThree<T>("fma.rn." + type, [](T a, T b, T c) {
    return static_cast<T>(static_cast<long double>(a) * b + c);
  });
  CheckOne<T>("sqrt.rn." + type, [](T a, T, T) { return std::sqrt(a); });
  CheckOne<T>("rcp.rn." + type, [](T a, T, T) { return 1 / a; });
  CheckOne<T>("neg." + type, [](T a, T, T) { return -a; });
  CheckOne<T>("abs." + type, [](T a, T, T) { return a < 0 ? -a : a; });
  CheckTwo<T>("min." + type, [](T a, T b, T) {
    return a != a ? b : b != b ? a : std::min(a, b);
  });
  CheckTwo<T>("max." + type, [](T a, T b, T) {
    return a != a ? b : b != b ? a : std::max(a, b);
  });
}

void CheckFunctions() {
  Check<float, float>("ex2.approx.ftz.f32 $r, $a;", [](float a, float, float) {
    return static_cast<float>(std::pow(2.0L, static_cast<long double>(a)));
  });
  Check<float, float>("ex2.approx.f32 $r, $a;", [](float a, float, float) {
    return static_cast<float>(std::pow(2.0L, static_cast<long double>(a)));
  });
  // The largest float below the exact sum, or it itself.
  CheckThree<float>("fma.rm.f32", [](float a, float b, float c) {
    const long double exact = static_cast<long double>(a) * b + c;
    const float near = static_cast<float>(exact);
    return near > exact ? std::nextafter(near, -INFINITY) : near;
  });
  Check<float, float>(
      "div.rn.f32 %f1, $a, 0f40400000; fma.rm.f32 $r, %f1, $b, %f1;",
      [](float a, float b, float) {
        const float third = a / 3;
        const long double exact = static_cast<long double>(third) * b + third;
        const float near = static_cast<float>(exact);
        return near > exact ? std::nextafter(near, -INFINITY) : near;
      });
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm::ptx;  // NOLINT
  CheckIntegers<int16_t>("s16");
  CheckIntegers<uint16_t>("u16");
  CheckIntegers<int32_t>("s32");
  CheckIntegers<uint32_t>("u32");
  CheckIntegers<int64_t>("s64");
  CheckIntegers<uint64_t>("u64");
  CheckProducts();
  CheckFloats<float>("f32");
  CheckFloats<double>("f64");
  CheckFunctions();
  return tf_hsm::Summarize();
}
