// The loops of rates.h, compiled once per ISA.

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "benchmarks/core/rates.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

// Independent sums: a sum takes 4 cycles or fewer and two begin in each cycle,
// so that 8 keep both ports busy, and 12 leave room.
constexpr int kChains = 12;
constexpr int kStreams = 8;

float SumOf(const Floats* vectors, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) sum += vectors[i][lane];
  }
  return sum;
}

float Read(const float* numbers, int64_t count) {
  const Floats* from = reinterpret_cast<const Floats*>(numbers);
  Floats sums[kStreams] = {};
  for (int64_t i = 0; i < count / kLanes; i += kStreams) {
#pragma GCC unroll 8
    for (int s = 0; s < kStreams; ++s) sums[s] += from[i + s];
  }
  return SumOf(sums, kStreams);
}

void Negate(float* numbers, int64_t count) {
  Floats* at = reinterpret_cast<Floats*>(numbers);
  for (int64_t i = 0; i < count / kLanes; i += kStreams) {
#pragma GCC unroll 8
    for (int s = 0; s < kStreams; ++s) at[i + s] = -at[i + s];
  }
}

void PastCaches(Floats* to, Floats value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float*>(to), (__m512)value);
#elif defined(__AVX2__)
  _mm256_stream_ps(reinterpret_cast<float*>(to), (__m256)value);
#elif defined(__x86_64__)
  _mm_stream_ps(reinterpret_cast<float*>(to), (__m128)value);
#else
  *to = value;
#endif
}

void Write(float* numbers, int64_t count) {
  Floats* to = reinterpret_cast<Floats*>(numbers);
  const Floats ones = Floats{} + 1.0f;
  for (int64_t i = 0; i < count / kLanes; ++i) PastCaches(to + i, ones);
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

float MultiplyAdd(int64_t steps, float factor, float term) {
  const Floats factors = Floats{} + factor, terms = Floats{} + term;
  Floats chains[kChains];
  // Equal chains would be computed once.
  for (int c = 0; c < kChains; ++c) chains[c] = terms * static_cast<float>(c);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) chains[c] = chains[c] * factors + terms;
  }
  return SumOf(chains, kChains);
}

}  // namespace

const RateKernels& RatesOfIsa() {
  static constexpr RateKernels kernels = {Read, Negate, Write, MultiplyAdd,
                                          int64_t{2} * kChains * kLanes};
  return kernels;
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
