// Comparisons, selections, and conversions between types.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cc/cuda/ptx/float16.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

// The integer nearest in range; NaN becomes 0.
template <typename D>
D Saturated(double value) {
  using Limits = std::numeric_limits<D>;
  if (std::isnan(value)) return 0;
  // The upper limit may have no double: the power of 2 above it has one.
  const double above = std::ldexp(1.0, Limits::digits);
  if (value >= above) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<D>(value);
}

template <typename T>
void AddOrder(OpcodeTable* table, const std::string& type) {
  table->Each("setp.eq." + type, [](T a, T b) { return a == b; });
  table->Each("setp.ne." + type,
              [](T a, T b) { return a < b || b < a; });  // false for NaN
  table->Each("setp.lt." + type, [](T a, T b) { return a < b; });
  table->Each("setp.le." + type, [](T a, T b) { return a <= b; });
  table->Each("setp.gt." + type, [](T a, T b) { return a > b; });
  table->Each("setp.ge." + type, [](T a, T b) { return a >= b; });
}

// True for NaN.
template <typename T>
void AddUnordered(OpcodeTable* table, const std::string& type) {
  table->Each("setp.equ." + type, [](T a, T b) { return !(a < b || b < a); });
  table->Each("setp.neu." + type, [](T a, T b) { return !(a == b); });
  table->Each("setp.ltu." + type, [](T a, T b) { return !(a >= b); });
  table->Each("setp.leu." + type, [](T a, T b) { return !(a > b); });
  table->Each("setp.gtu." + type, [](T a, T b) { return !(a <= b); });
  table->Each("setp.geu." + type, [](T a, T b) { return !(a < b); });
  table->Each("setp.num." + type, [](T a, T b) { return a == a && b == b; });
  table->Each("setp.nan." + type, [](T a, T b) { return a != a || b != b; });
}

template <typename F>
void ForAllIntegers(const F& f) {
  f(int8_t(), "s8"), f(uint8_t(), "u8");
  ForIntegers(f);
}

// From S to every type.
template <typename S>
void AddFromInteger(OpcodeTable* table, const std::string& from) {
  ForAllIntegers([=](auto zero, const std::string& to) {
    using D = decltype(zero);
    table->EachConversion("cvt." + to + "." + from,
                          [](S a) { return static_cast<D>(a); });
  });
  ForFloats([=](auto zero, const std::string& to) {
    using D = decltype(zero);
    table->EachConversion("cvt.rn." + to + "." + from,
                          [](S a) { return static_cast<D>(a); });
  });
}

template <typename S>
void AddFromFloat(OpcodeTable* table, const std::string& from) {
  ForIntegers([=](auto zero, const std::string& to) {
    using D = decltype(zero);
    const std::string types = to + "." + from;
    table->Each("cvt.rzi." + types,
                [](S a) { return Saturated<D>(std::trunc(a)); });
    table->Each("cvt.rni." + types,
                [](S a) { return Saturated<D>(std::nearbyint(a)); });
    table->Each("cvt.rmi." + types,
                [](S a) { return Saturated<D>(std::floor(a)); });
    table->Each("cvt.rpi." + types,
                [](S a) { return Saturated<D>(std::ceil(a)); });
  });
  const std::string types = from + "." + from;
  table->Each("cvt.rzi." + types, [](S a) { return std::trunc(a); });
  table->Each("cvt.rni." + types, [](S a) { return std::nearbyint(a); });
  table->Each("cvt.rmi." + types, [](S a) { return std::floor(a); });
  table->Each("cvt.rpi." + types, [](S a) { return std::ceil(a); });
  table->Each("cvt.sat." + types, [](S a) {
    return a > 0 ? std::min(a, S{1}) : S{0};  // NaN becomes 0
  });
}

}  // namespace

void AddComparisons(OpcodeTable* table) {
  ForIntegers([=](auto zero, const std::string& type) {
    AddOrder<decltype(zero)>(table, type);
    using T = decltype(zero);
    table->Each("selp." + type, [](T a, T b, bool p) { return p ? a : b; });
  });
  ForBits([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    table->Each("setp.eq." + type, [](T a, T b) { return a == b; });
    table->Each("setp.ne." + type, [](T a, T b) { return a != b; });
    table->Each("selp." + type, [](T a, T b, bool p) { return p ? a : b; });
  });
  ForFloats([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    AddOrder<T>(table, type);
    AddUnordered<T>(table, type);
    table->Each("selp." + type, [](T a, T b, bool p) { return p ? a : b; });
  });
}

void AddConversions(OpcodeTable* table) {
  ForAllIntegers([=](auto zero, const std::string& from) {
    AddFromInteger<decltype(zero)>(table, from);
  });
  AddFromFloat<float>(table, "f32");
  AddFromFloat<double>(table, "f64");
  table->Each("cvt.f64.f32", [](float a) { return double{a}; });
  table->Each("cvt.rn.f32.f64", [](double a) { return static_cast<float>(a); });
  table->Each("cvt.f32.f16", [](uint16_t a) { return HalfToFloat(a); });
  table->Each("cvt.rn.f16.f32", [](float a) { return FloatToHalf(a); });
  table->Each("cvt.rn.bf16.f32", [](float a) { return FloatToBfloat16(a); });
  // The first number goes to the upper half.
  table->Each("cvt.rn.f16x2.f32", [](float a, float b) {
    return uint32_t{FloatToHalf(a)} << 16 | FloatToHalf(b);
  });
  table->Each("cvt.rn.bf16x2.f32", [](float a, float b) {
    return uint32_t{FloatToBfloat16(a)} << 16 | FloatToBfloat16(b);
  });
  table->Each("cvt.f32.bf16", [](uint16_t a) { return Bfloat16ToFloat(a); });
  // Ties go away from zero. The low 13 bits stay as the sum leaves them: PTX
  // does not define them.
  table->Each("cvt.rna.tf32.f32", [](uint32_t a) {
    const bool finite = (a & 0x7f800000) != 0x7f800000;
    return finite ? a + 0x1000 : a;
  });
  table->Each("cvta.to.global.u64", [](uint64_t a) { return a; });
  table->Each("cvta.global.u64", [](uint64_t a) { return a; });
  table->Each("cvta.shared.u64", [](uint64_t a) { return a + kSharedWindow; });
  table->Each("cvta.to.shared.u64",
              [](uint64_t a) { return a - kSharedWindow; });
}

}  // namespace ptx
}  // namespace tf_hsm
