// Comparisons, bits, conversions and moves, against expectations that are made
// in other ways; and statements that are refused.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "cc/cuda/ptx/scalars_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

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
  CheckOrder<F>("ltu", "f32",
                [](F a, F b) { return a != a || b != b || a < b; });
  CheckOrder<F>("geu", "f32",
                [](F a, F b) { return a != a || b != b || a >= b; });
  CheckOrder<F>("neu", "f32",
                [](F a, F b) { return a != a || b != b || a != b; });
  CheckOrder<F>("equ", "f32",
                [](F a, F b) { return a != a || b != b || a == b; });
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
    for (count %= 32; count > 0; --count, low *= 2)
      high = high * 2 + low / (1u << 31);
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
  Check<int64_t, int32_t>(
      "cvt.s64.s32 $r, $a;",
      [](int32_t a, int32_t, int32_t) { return int64_t{a}; });
  // From the low half of a wider register.
  Check<int64_t, int64_t>("cvt.s64.s32 $r, $a;",
                          [](int64_t a, int64_t, int64_t) {
                            return int64_t{static_cast<int32_t>(a)};
                          });
  Check<int32_t, int32_t>("cvt.s32.s8 $r, $a;",
                          [](int32_t a, int32_t, int32_t) {
                            return int32_t{static_cast<int8_t>(a)};
                          });
  Check<uint16_t, uint32_t>(
      "cvt.u16.u32 $r, $a;",
      [](uint32_t a, uint32_t, uint32_t) { return static_cast<uint16_t>(a); });
  Check<float, int32_t>(
      "cvt.rn.f32.s32 $r, $a;",
      [](int32_t a, int32_t, int32_t) { return static_cast<float>(a); });
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
  for (const auto& [bits, want] :
       {std::pair<const char*, uint16_t>{"3F801000", 0x3c00},
        {"3F803000", 0x3c02},
        {"33000000", 0},
        {"33000001", 1},
        {"477FF000", 0x7c00},
        {"387FE000", 0x0400}}) {
    const uint16_t expected = want;
    Check<uint16_t, uint16_t>(
        std::string("cvt.rn.f16.f32 $r, 0f") + bits + ";",
        [expected](uint16_t, uint16_t, uint16_t) { return expected; });
  }
  // 1 + 2^-8 and 1 + 3 2^-8 are ties; the first number goes to the upper half.
  Check<uint32_t, uint32_t>(
      "cvt.rn.bf16x2.f32 $r, 0f3F808000, 0f3F818000;",
      [](uint32_t, uint32_t, uint32_t) { return 0x3f803f82u; });
  Check<uint16_t, uint16_t>(
      "cvt.rn.bf16.f32 $r, 0f7F7FFFFF;",
      [](uint16_t, uint16_t, uint16_t) { return uint16_t{0x7f80}; });
  Check<uint32_t, uint32_t>(
      "cvt.rn.f16x2.f32 $r, 0f3F803000, 0f3F800000;",
      [](uint32_t, uint32_t, uint32_t) { return 0x3c023c00u; });
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
  Check<int32_t, int32_t>("add.s32 $r, $a, -3;",
                          [](int32_t a, int32_t, int32_t) {
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
