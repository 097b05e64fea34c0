// Runs one opcode, or some, on drawn numbers in every thread.

#ifndef TF_HSM_CC_CUDA_PTX_SCALARS_TEST_SUPPORT_H_
#define TF_HSM_CC_CUDA_PTX_SCALARS_TEST_SUPPORT_H_

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {

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

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_SCALARS_TEST_SUPPORT_H_
