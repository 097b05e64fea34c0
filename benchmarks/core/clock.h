// Wall-clock time.

#ifndef TF_HSM_BENCHMARKS_CORE_CLOCK_H_
#define TF_HSM_BENCHMARKS_CORE_CLOCK_H_

#include <chrono>  // NOLINT(build/c++11)

namespace tf_hsm {

// How long one call takes.
template <typename Function>
double SecondsOf(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_CLOCK_H_
