// Logic, shifts, and operations on the bits of a number.

#include <algorithm>
#include <cstdint>

#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

template <typename T>
constexpr unsigned kBits = 8 * sizeof(T);

// The low `count` bits set.
template <typename T>
T LowBits(unsigned count) {
  return count >= kBits<T> ? static_cast<T>(~T{0})
                           : static_cast<T>((T{1} << count) - 1);
}

template <typename T>
T ShiftLeft(T a, unsigned count) {
  return count >= kBits<T> ? 0 : static_cast<T>(a << count);
}
template <typename T>
T ShiftRight(T a, unsigned count) {
  const unsigned most = kBits<T> - 1;
  if (T(-1) < 0) return a >> std::min(count, most);
  return count > most ? 0 : a >> count;
}

template <typename T>
T Reverse(T a) {
  T result = 0;
  for (unsigned i = 0; i < kBits<T>; ++i) {
    result |= (a >> i & 1) << (kBits<T> - 1 - i);
  }
  return result;
}

// b with the low `count` bits of a at `first`.
template <typename T>
T Insert(T a, T b, unsigned first, unsigned count) {
  const T mask = ShiftLeft(LowBits<T>(count & 255), first & 255);
  return (b & ~mask) | (ShiftLeft(a, first & 255) & mask);
}

// Four bytes of b:a; bit 3 of a choice copies the sign.
uint32_t Permute(uint32_t a, uint32_t b, uint32_t choice) {
  const uint64_t all = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned chosen = choice >> (4 * i) & 15;
    uint32_t byte = all >> (8 * (chosen & 7)) & 255;
    if (chosen & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}

// `function` is a table of results: bit 4a + 2b + c.
uint32_t Logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t function) {
  uint32_t result = 0;
  for (int i = 0; i < 8; ++i) {
    if (!(function >> i & 1)) continue;
    result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  }
  return result;
}

uint32_t FunnelLeft(uint32_t low, uint32_t high, unsigned count) {
  const uint64_t all = uint64_t{high} << 32 | low;
  return static_cast<uint32_t>(all << count >> 32);
}
uint32_t FunnelRight(uint32_t low, uint32_t high, unsigned count) {
  const uint64_t all = uint64_t{high} << 32 | low;
  return static_cast<uint32_t>(all >> count);
}

}  // namespace

void AddBits(OpcodeTable* table) {
  ForBits([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    table->Each("and." + type, [](T a, T b) { return T(a & b); });
    table->Each("or." + type, [](T a, T b) { return T(a | b); });
    table->Each("xor." + type, [](T a, T b) { return T(a ^ b); });
    table->Each("not." + type, [](T a) { return T(~a); });
    table->Each("shl." + type,
                [](T a, uint32_t count) { return ShiftLeft(a, count); });
    table->Each("shr." + type,
                [](T a, uint32_t count) { return ShiftRight(a, count); });
  });
  ForIntegers([=](auto zero, const std::string& type) {
    using T = decltype(zero);
    table->Each("shr." + type,
                [](T a, uint32_t count) { return ShiftRight(a, count); });
  });
  table->Each("and.pred", [](bool a, bool b) { return a && b; });
  table->Each("or.pred", [](bool a, bool b) { return a || b; });
  table->Each("xor.pred", [](bool a, bool b) { return a != b; });
  table->Each("not.pred", [](bool a) { return !a; });
  table->Each("popc.b32", [](uint32_t a) {
    return static_cast<uint32_t>(__builtin_popcount(a));
  });
  table->Each("popc.b64", [](uint64_t a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  });
  table->Each("clz.b32", [](uint32_t a) {
    return static_cast<uint32_t>(a == 0 ? 32 : __builtin_clz(a));
  });
  table->Each("clz.b64", [](uint64_t a) {
    return static_cast<uint32_t>(a == 0 ? 64 : __builtin_clzll(a));
  });
  table->Each("brev.b32", [](uint32_t a) { return Reverse(a); });
  table->Each("brev.b64", [](uint64_t a) { return Reverse(a); });
  table->Each("bfi.b32",
              [](uint32_t a, uint32_t b, uint32_t first, uint32_t count) {
                return Insert(a, b, first, count);
              });
  table->Each("bfi.b64",
              [](uint64_t a, uint64_t b, uint32_t first, uint32_t count) {
                return Insert(a, b, first, count);
              });
  table->Each("bfe.u32", [](uint32_t a, uint32_t first, uint32_t count) {
    return ShiftRight(a, first & 255) & LowBits<uint32_t>(count & 255);
  });
  table->Each("bfe.u64", [](uint64_t a, uint32_t first, uint32_t count) {
    return ShiftRight(a, first & 255) & LowBits<uint64_t>(count & 255);
  });
  table->Each("bmsk.clamp.b32", [](uint32_t first, uint32_t count) {
    return ShiftLeft(LowBits<uint32_t>(count), first);
  });
  table->Each("prmt.b32", [](uint32_t a, uint32_t b, uint32_t choice) {
    return Permute(a, b, choice);
  });
  table->Each("lop3.b32",
              [](uint32_t a, uint32_t b, uint32_t c, uint32_t function) {
                return Logic3(a, b, c, function);
              });
  table->Each("shf.l.wrap.b32", [](uint32_t low, uint32_t high, uint32_t n) {
    return FunnelLeft(low, high, n & 31);
  });
  table->Each("shf.l.clamp.b32", [](uint32_t low, uint32_t high, uint32_t n) {
    return FunnelLeft(low, high, std::min(n, 32u));
  });
  table->Each("shf.r.wrap.b32", [](uint32_t low, uint32_t high, uint32_t n) {
    return FunnelRight(low, high, n & 31);
  });
  table->Each("shf.r.clamp.b32", [](uint32_t low, uint32_t high, uint32_t n) {
    return FunnelRight(low, high, std::min(n, 32u));
  });
}

}  // namespace ptx
}  // namespace tf_hsm
