#include "benchmarks/core/rates.h"

#include <functional>

#include "benchmarks/core/clock.h"

namespace tf_hsm {

#define TF_HSM_DECLARE(isa)        \
  namespace isa {                  \
  const RateKernels& RatesOfIsa(); \
  }
TF_HSM_DECLARE(baseline)
#if defined(__x86_64__)
TF_HSM_DECLARE(avx2)
TF_HSM_DECLARE(avx512)
#endif
#undef TF_HSM_DECLARE

const RateKernels& RateKernelsFor(Isa isa) {
#if defined(__x86_64__)
  // Tiles add no rate of memory, and have none of fp32.
  if (isa == Isa::kAvx512 || isa == Isa::kAmx) return avx512::RatesOfIsa();
  if (isa == Isa::kAvx2) return avx2::RatesOfIsa();
#endif
  (void)isa;
  return baseline::RatesOfIsa();
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
