// Integers: add to rem. Floating-point numbers: add to fma, and functions.
// Rounding is to nearest, as the host's; "approx" functions are better here
// than on a GPU, which promises a few units in the last place.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

template <typename T>
using Unsigned = typename std::make_unsigned<T>::type;

// The high half of the product.
template <typename T>
T HighProduct(T a, T b) {
  using Wide = typename std::conditional<std::is_signed<T>::value, __int128,
                                         unsigned __int128>::type;
  return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >>
                        (8 * sizeof(T)));
}

// As the hardware's, where C++ has no result.
template <typename T>
T Quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) {
    return static_cast<T>(-static_cast<Unsigned<T>>(a));
  }
  return a / b;
}
template <typename T>
T Remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed<T>::value && b == static_cast<T>(-1)) return 0;
  return a % b;
}

// fma, rounded down. The product is exact in double; `error` is what the sum
// lost there.
float FmaDown(float a, float b, float c) {
  const float near = std::fmaf(a, b, c);
  const double product = double{a} * b, sum = product + c;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  const bool above = near > sum || (near == sum && error < 0);
  return above ? std::nextafterf(near, -INFINITY) : near;
}

float FlushSubnormal(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min()
             ? std::copysign(0.0f, value)
             : value;
}

// Its low half is zero.
double RoughReciprocal(double value) {
  const double exact = 1 / value;
  uint64_t bits;
  std::memcpy(&bits, &exact, sizeof(bits));
  bits &= ~uint64_t{0xffffffff};
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

#if defined(__x86_64__)
// std::fma is a call on machines that may lack the instruction.
__attribute__((target("avx2,fma"))) void RunFma32(const Instruction& in,
                                                  Warp& warp) {
  float* result = warp.Row<float>(in.operands[0]);
  const float* a = warp.Row<float>(in.operands[1]);
  const float* b = warp.Row<float>(in.operands[2]);
  const float* c = warp.Row<float>(in.operands[3]);
  if (warp.active == kAllLanes) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i)
      result[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return;
  }
  for (uint32_t mask = warp.active; mask != 0; mask &= mask - 1) {
    const int i = __builtin_ctz(mask);
    result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  }
}
#endif

template <typename T, typename Wide>
void AddWide(OpcodeTable* table, const std::string& type) {
  table->Each("mul.wide." + type, [](T a, T b) { return Wide(a) * Wide(b); });
  table->Each("mad.wide." + type, [](T a, T b, Wide c) {
    using U = Unsigned<Wide>;
    return static_cast<Wide>(U(Wide(a) * Wide(b)) + U(c));
  });
}

}  // namespace

void AddIntegerArithmetic(OpcodeTable* table) {
  ForIntegers([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    using U = Unsigned<T>;
    table->Each("add." + type, [](T a, T b) { return T(U(a) + U(b)); });
    table->Each("sub." + type, [](T a, T b) { return T(U(a) - U(b)); });
    table->Each("mul.lo." + type, [](T a, T b) {
      return static_cast<T>(uint64_t(a) * uint64_t(b));
    });
    table->Each("mul.hi." + type, [](T a, T b) { return HighProduct(a, b); });
    table->Each("mad.lo." + type, [](T a, T b, T c) {
      return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
    });
    table->Each("div." + type, [](T a, T b) { return Quotient(a, b); });
    table->Each("rem." + type, [](T a, T b) { return Remainder(a, b); });
    table->Each("min." + type, [](T a, T b) { return b < a ? b : a; });
    table->Each("max." + type, [](T a, T b) { return a < b ? b : a; });
  });
  ForSigned([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    using U = Unsigned<T>;
    table->Each("neg." + type, [](T a) { return T(-U(a)); });
    table->Each("abs." + type, [](T a) { return a < 0 ? T(-U(a)) : a; });
  });
  AddWide<int16_t, int32_t>(table, "s16");
  AddWide<int32_t, int64_t>(table, "s32");
  AddWide<uint16_t, uint32_t>(table, "u16");
  AddWide<uint32_t, uint64_t>(table, "u32");
}

void AddFloatArithmetic(OpcodeTable* table) {
  ForFloats([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    for (const std::string rounding : {".", ".rn."}) {
      table->Each("add" + rounding + type, [](T a, T b) { return a + b; });
      table->Each("sub" + rounding + type, [](T a, T b) { return a - b; });
      table->Each("mul" + rounding + type, [](T a, T b) { return a * b; });
    }
    table->Each("fma.rn." + type,
                [](T a, T b, T c) { return std::fma(a, b, c); });
    table->Each("div.rn." + type, [](T a, T b) { return a / b; });
    table->Each("rcp.rn." + type, [](T a) { return 1 / a; });
    table->Each("sqrt.rn." + type, [](T a) { return std::sqrt(a); });
    table->Each("neg." + type, [](T a) { return -a; });
    table->Each("abs." + type, [](T a) { return std::fabs(a); });
    // The number, if the other one is NaN.
    table->Each("min." + type, [](T a, T b) { return std::fmin(a, b); });
    table->Each("max." + type, [](T a, T b) { return std::fmax(a, b); });
    table->Each("copysign." + type,
                [](T sign, T a) { return std::copysign(a, sign); });
  });
  table->Each("fma.rm.f32",
              [](float a, float b, float c) { return FmaDown(a, b, c); });
  table->Each("ex2.approx.ftz.f32", [](float a) {
    const double exact = std::exp2(double{FlushSubnormal(a)});
    return FlushSubnormal(static_cast<float>(exact));
  });
  table->Each("ex2.approx.f32",
              [](float a) { return static_cast<float>(std::exp2(double{a})); });
  table->Each("lg2.approx.ftz.f32", [](float a) {
    return static_cast<float>(std::log2(double{FlushSubnormal(a)}));
  });
  table->Each("rcp.approx.ftz.f64",
              [](double a) { return RoughReciprocal(a); });
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    table->scalars["fma.rn.f32"].execute = RunFma32;
  }
#endif
}

}  // namespace ptx
}  // namespace tf_hsm
