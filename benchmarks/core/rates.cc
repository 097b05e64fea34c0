#include "benchmarks/core/rates.h"

#include <functional>

#include "benchmarks/core/clock.h"

namespace tf_hsm {

#define TF_HSM_DECLARE(enumerator, name) \
  namespace name {                       \
  const RateKernels& RatesOfIsa();       \
  }
TF_HSM_ISAS(TF_HSM_DECLARE)
#undef TF_HSM_DECLARE

const RateKernels& RateKernelsFor(Isa isa) {
#define TF_HSM_CASE(enumerator, name) \
  case Isa::enumerator:               \
    return name::RatesOfIsa();
  switch (isa) { TF_HSM_ISAS(TF_HSM_CASE) }
#undef TF_HSM_CASE
  __builtin_unreachable();
}

Rates MeasureRates(Isa isa, int threads, const Parallel& parallel,
                   float* numbers, int64_t count) {
  constexpr int64_t kSteps = 1 << 21;
  const RateKernels& kernels = RateKernelsFor(isa);
  const int64_t part = count / threads;
  const double bytes = static_cast<double>(part) * threads * sizeof(float);
  auto seconds = [&](const std::function<void(int64_t)>& work) {
    return SecondsOf([&] { parallel(threads, work); });
  };
  Rates rates;
  rates.read = bytes / seconds([&](int64_t i) {
                 kernels.read(numbers + i * part, part);
               });
  rates.in_place = 2 * bytes / seconds([&](int64_t i) {
                     kernels.negate(numbers + i * part, part);
                   });
  rates.past_caches = bytes / seconds([&](int64_t i) {
                        kernels.write(numbers + i * part, part);
                      });
  rates.flops =
      static_cast<double>(kSteps * kernels.flops) * threads /
      seconds([&](int64_t) { kernels.multiply_add(kSteps, 0.5f, 1.0f); });
  return rates;
}

}  // namespace tf_hsm
