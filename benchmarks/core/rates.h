// What the machine itself can do, measured with the vectors of each ISA.

#ifndef TF_HSM_BENCHMARKS_CORE_RATES_H_
#define TF_HSM_BENCHMARKS_CORE_RATES_H_

#include <cstdint>

#include "cc/core/base/isa.h"
#include "cc/core/base/parallel.h"

namespace tf_hsm {

// What one thread runs. Pointers are aligned to 64 bytes, counts are multiples
// of 256.
struct RateKernels {
  float (*read)(const float* numbers, int64_t count);
  void (*negate)(float* numbers, int64_t count);
  // Past the caches, where the ISA has such stores.
  void (*write)(float* numbers, int64_t count);
  // `steps` times `flops` operations, each a product and a sum: one
  // instruction from AVX2 up.
  float (*multiply_add)(int64_t steps, float factor, float term);
  int64_t flops;
};

const RateKernels& RateKernelsFor(Isa isa);

struct Rates {
  double read;         // bytes a second
  double in_place;     // bytes read plus bytes written
  double past_caches;  // bytes written
  double flops;        // float32
};

// Streams through `count` numbers, a multiple of 256 x threads, by all threads.
Rates MeasureRates(Isa isa, int threads, const Parallel& parallel,
                   float* numbers, int64_t count);

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_RATES_H_
