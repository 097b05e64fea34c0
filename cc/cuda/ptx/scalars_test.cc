// Opcodes that compute one result of each lane, against expectations in wider
// arithmetic or bit by bit.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr int kThreads = 48;  // a warp, and half of one

template <typename T>
std::string RegisterOf() {
  if (std::is_same<T, float>::value) return "%f";
  if (std::is_same<T, double>::value) return "%fd";
  return sizeof(T) == 2 ? "%rs" : sizeof(T) == 4 ? "%r" : "%rd";
}

// Numbers at which arithmetic has its edges, and others.
template <typename T>
T DrawNumber(std::mt19937_64* rng) {
  using Limits = std::numeric_limits<T>;
  const uint64_t choice = (*rng)() % 8;
  if constexpr (std::is_integral<T>::value) {
    if (choice == 0) return Limits::min();
    if (choice == 1) return Limits::max();
    if (choice < 5) return static_cast<T>((*rng)() % 70 - 3);
    return static_cast<T>((*rng)());
  } else {
    if (choice == 0) return Limits::quiet_NaN();
    if (choice == 1) return Limits::infinity();
    return (static_cast<int>((*rng)() % 2001) - 1000) / T{64};
  }
}

// Runs `code`, in which $a, $b and $c are registers with drawn numbers and $r
// is that of the result, in every thread.
template <typename R, typename A, typename B = A, typename C = A>
void Check(const std::string& code,
           const typename std::common_type<std::function<R(A, B, C)>>::type&
               expected) {
  std::mt19937_64 rng(7);
  std::vector<A> a;
  std::vector<B> b;
  std::vector<C> c;
  for (int i = 0; i < kThreads; ++i) {
    a.push_back(DrawNumber<A>(&rng));
    b.push_back(DrawNumber<B>(&rng));
    c.push_back(DrawNumber<C>(&rng));
  }
  std::string body;
  auto access = [&](int parameter, int bytes, const std::string& statement) {
    body += "ld.param.u64 %rd80, [p" + std::to_string(parameter) +
            "]; mad.wide.u32 %rd81, %r0, " + std::to_string(bytes) +
            ", %rd80; " + statement + ";\n";
  };
  auto bits = [](int bytes) { return "b" + std::to_string(8 * bytes) + " "; };
  const std::string names[] = {RegisterOf<R>() + "71", RegisterOf<A>() + "72",
                               RegisterOf<B>() + "73", RegisterOf<C>() + "74"};
  access(1, sizeof(A), "ld.global." + bits(sizeof(A)) + names[1] + ", [%rd81]");
  access(2, sizeof(B), "ld.global." + bits(sizeof(B)) + names[2] + ", [%rd81]");
  access(3, sizeof(C), "ld.global." + bits(sizeof(C)) + names[3] + ", [%rd81]");
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] != '$') {
      body += code[i];
    } else {
      body += names[std::string("rabc").find(code[++i])];
    }
  }
  access(0, sizeof(R), "st.global." + bits(sizeof(R)) + "[%rd81], " + names[0]);
  TestDevice device;
  const uint64_t out = device.Upload(std::vector<R>(kThreads));
  ExpectClean(
      device.Run(body, {1, kThreads},
                 {out, device.Upload(a), device.Upload(b), device.Upload(c)}),
      code);
  const std::vector<R> got = TestDevice::Download<R>(out, kThreads);
  for (int i = 0; i < kThreads; ++i) {
    const R want = expected(a[i], b[i], c[i]);
    Expect(got[i] == want || (want != want && got[i] != got[i]),
           code + " of thread " + std::to_string(i) + ": " +
               std::to_string(got[i]) + " for " + std::to_string(want));
  }
}

template <typename T>
using Function = std::function<T(T, T, T)>;

template <typename T>
void CheckOne(const std::string& opcode, const Function<T>& expected) {
  Check<T, T>(opcode + " $r, $a;", expected);
}
template <typename T>
void CheckTwo(const std::string& opcode, const Function<T>& expected) {
  Check<T, T>(opcode + " $r, $a, $b;", expected);
}
template <typename T>
void CheckThree(const std::string& opcode, const Function<T>& expected) {
  Check<T, T>(opcode + " $r, $a, $b, $c;", expected);
}

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
      "mad.wide.u32 $r, $a, $b, $c;", [](uint32_t a, uint32_t b, uint64_t c) {
        return uint64_t{a} * b + c;
      });
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

// T(a) compared with T(b): a predicate, and its opposite as a guard.
template <typename T>
void CheckOrder(const std::string& order, const std::string& type,
                bool (*expected)(T, T)) {
  Check<uint32_t, T>(
      "setp." + order + "." + type +
          " %p1, $a, $b; @!%p1 mov.u32 $r, 7; @%p1 mov.u32 $r, 9;",
      [expected](T a, T b, T) { return expected(a, b) ? 9u : 7u; });
}

template <typename T>
void CheckOrders(const std::string& type) {
  CheckOrder<T>("lt", type, [](T a, T b) { return a < b; });
  CheckOrder<T>("le", type, [](T a, T b) { return a <= b; });
  CheckOrder<T>("gt", type, [](T a, T b) { return a > b; });
  CheckOrder<T>("ge", type, [](T a, T b) { return a >= b; });
  CheckOrder<T>("eq", type, [](T a, T b) { return a == b; });
  CheckOrder<T>("ne", type, [](T a, T b) { return a < b || a > b; });
}

void CheckUnordered() {
  using F = float;
  CheckOrder<F>("ltu", "f32", [](F a, F b) { return a != a || b != b || a < b; });
  CheckOrder<F>("geu", "f32", [](F a, F b) { return a != a || b != b || a >= b; });
  CheckOrder<F>("neu", "f32", [](F a, F b) { return a != a || b != b || a != b; });
  CheckOrder<F>("equ", "f32", [](F a, F b) { return a != a || b != b || a == b; });
  CheckOrder<F>("nan", "f32", [](F a, F b) { return a != a || b != b; });
  CheckOrder<F>("num", "f32", [](F a, F b) { return a == a && b == b; });
}

void CheckBits() {
  using U = uint32_t;
  CheckTwo<U>("and.b32", [](U a, U b, U) { return a & b; });
  CheckTwo<U>("or.b32", [](U a, U b, U) { return a | b; });
  CheckTwo<U>("xor.b32", [](U a, U b, U) { return a ^ b; });
  CheckOne<U>("not.b32", [](U a, U, U) { return ~a; });
  CheckTwo<U>("shl.b32", [](U a, U count, U) {
    for (count = std::min(count, 64u); count > 0; --count) a *= 2;
    return a;
  });
  CheckOne<U>("popc.b32", [](U a, U, U) {
    U count = 0;
    for (; a != 0; a /= 2) count += a % 2;
    return count;
  });
  CheckOne<U>("clz.b32", [](U a, U, U) {
    U zeros = 32;
    for (; a != 0; a /= 2) --zeros;
    return zeros;
  });
  CheckOne<U>("brev.b32", [](U a, U, U) {
    U result = 0;
    for (int i = 0; i < 32; ++i, a /= 2) result = result * 2 + a % 2;
    return result;
  });
  CheckThree<U>("prmt.b32", [](U a, U b, U choices) {
    U result = 0;
    for (int i = 3; i >= 0; --i) {
      const U choice = choices >> (4 * i) & 15, chosen = choice % 8;
      U byte = (chosen < 4 ? a : b) >> (chosen % 4 * 8) & 255;
      if (choice >= 8) byte = byte >= 128 ? 255 : 0;
      result = result << 8 | byte;
    }
    return result;
  });
  CheckThree<U>("shf.l.wrap.b32", [](U low, U high, U count) {
    for (count %= 32; count > 0; --count, low *= 2) high = high * 2 + low / (1u << 31);
    return high;
  });
  CheckThree<U>("shf.r.clamp.b32", [](U low, U high, U count) {
    for (count = std::min(count, 32u); count > 0; --count, high /= 2) {
      low = low / 2 + high % 2 * (1u << 31);
    }
    return low;
  });
  Check<U, U>("bfe.u32 %r1, $a, 7, 9; bfi.b32 $r, %r1, $b, 3, 9;",
              [](U a, U b, U) { return (b & ~0xff8u) | (a / 128 % 512) * 8; });
  Check<U, U>("lop3.b32 $r, $a, $b, $c, 0xca;",
              [](U a, U b, U c) { return (a & b) | (~a & c); });
  Check<U, U>("bmsk.clamp.b32 $r, 5, 4;", [](U, U, U) { return 0x1e0u; });
}

void CheckConversions() {
  Check<int64_t, int32_t>("cvt.s64.s32 $r, $a;",
                          [](int32_t a, int32_t, int32_t) { return int64_t{a}; });
  // From the low half of a wider register.
  Check<int64_t, int64_t>("cvt.s64.s32 $r, $a;", [](int64_t a, int64_t, int64_t) {
    return int64_t{static_cast<int32_t>(a)};
  });
  Check<int32_t, int32_t>("cvt.s32.s8 $r, $a;", [](int32_t a, int32_t, int32_t) {
    return int32_t{static_cast<int8_t>(a)};
  });
  Check<uint16_t, uint32_t>("cvt.u16.u32 $r, $a;",
                            [](uint32_t a, uint32_t, uint32_t) {
                              return static_cast<uint16_t>(a);
                            });
  Check<float, int32_t>("cvt.rn.f32.s32 $r, $a;", [](int32_t a, int32_t, int32_t) {
    return static_cast<float>(a);
  });
  Check<int32_t, float>("cvt.rzi.s32.f32 $r, $a;", [](float a, float, float) {
    if (a != a) return 0;
    return a > 1e9f ? std::numeric_limits<int32_t>::max() : static_cast<int>(a);
  });
  Check<float, float>("cvt.sat.f32.f32 $r, $a;", [](float a, float, float) {
    return a != a ? 0 : std::min(std::max(a, 0.0f), 1.0f);
  });
  Check<double, float>("cvt.f64.f32 $r, $a;",
                       [](float a, float, float) { return double{a}; });
  // Every half is itself after a way through float32.
  Check<uint32_t, uint32_t>(
      "cvt.u16.u32 %rs1, $a; cvt.f32.f16 %f1, %rs1; cvt.rn.f16.f32 %rs2, %f1;"
      "cvt.u32.u16 $r, %rs2;",
      [](uint32_t a, uint32_t, uint32_t) {
        const bool nan = (a & 0x7fff) > 0x7c00;
        return nan ? 0x7fffu : a & 0xffff;
      });
  // 1 + 2^-11 and 1 + 3 2^-11 are ties, 2^-25 is the tie below the least.
  for (const auto& [bits, want] : {std::pair<const char*, uint16_t>
       {"3F801000", 0x3c00}, {"3F803000", 0x3c02}, {"33000000", 0},
       {"33000001", 1}, {"477FF000", 0x7c00}, {"387FE000", 0x0400}}) {
    const uint16_t expected = want;
    Check<uint16_t, uint16_t>(
        std::string("cvt.rn.f16.f32 $r, 0f") + bits + ";",
        [expected](uint16_t, uint16_t, uint16_t) { return expected; });
  }
  Check<uint32_t, uint32_t>(
      "cvt.rna.tf32.f32 %r1, 0f3F801000; and.b32 $r, %r1, 0xffffe000;",
      [](uint32_t, uint32_t, uint32_t) { return 0x3f802000u; });
}

void CheckMoves() {
  using U = uint64_t;
  Check<U, U>("mov.b64 {%r1, %r2}, $a; mov.b64 $r, {%r2, %r1};",
              [](U a, U, U) { return a << 32 | a >> 32; });
  Check<U, U>("mov.b64 {%r1, _}, $a; cvt.u64.u32 $r, %r1;",
              [](U a, U, U) { return a & 0xffffffff; });
  Check<float, float>("mov.f32 $r, 0fBF000000;",
                      [](float, float, float) { return -0.5f; });
  Check<double, double>("mov.f64 $r, 0d3FF8000000000000;",
                        [](double, double, double) { return 1.5; });
  Check<int32_t, int32_t>("add.s32 $r, $a, -3;", [](int32_t a, int32_t, int32_t) {
    return static_cast<int32_t>(int64_t{a} - 3);
  });
}

void CheckRefusals() {
  TestDevice device;
  const Grid one = {1, 1};
  ExpectFound(device.Run("foo.b32 %r1, %r2;", one, {0}), "an opcode",
              {"unknown opcode", "foo.b32", "line 12"});
  ExpectFound(device.Run("add.rz.f32 %f1, %f2, %f3;", one, {0}), "a rounding",
              {"unknown opcode", "add.rz.f32"});
  ExpectFound(device.Run("add.s32 %r1, %r2, %rd3;", one, {0}), "a size",
              {"another size", "%rd3"});
  ExpectFound(device.Run("add.s32 %r1, %r2;", one, {0}), "too few operands",
              {"number of operands"});
  ExpectFound(device.Run("mov.u32 %r1, nothing;", one, {0}), "a name",
              {"no variable nothing"});
  ExpectFound(device.Run("ld.global.v2.what.u32 {%r1, %r2}, [%rd0];", one, {0}),
              "a word", {"unknown .what"});
  ExpectFound(device.Run("bra NOWHERE;", one, {0}), "a label", {"no label"});
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
  CheckOrders<int16_t>("s16");
  CheckOrders<uint32_t>("u32");
  CheckOrders<int64_t>("s64");
  CheckOrders<float>("f32");
  CheckOrders<double>("f64");
  CheckUnordered();
  CheckBits();
  CheckConversions();
  CheckMoves();
  CheckRefusals();
  return tf_hsm::Summarize();
}
