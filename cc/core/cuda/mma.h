// The matrix instructions of a warp: c [16 x 8] += a [16 x k] b [k x 8].
//
// Fragments, with g = lane / 4 and t = lane % 4 (the PTX manual, "Matrix
// Fragments for mma.m16n8k8" and "m16n8k16"):
//   tf32, k = 8:   a = (g, t) (g+8, t) (g, t+4) (g+8, t+4);  b = (t, g) (t+4,
//   g) 16 bits, k = 16, two numbers along k in a word, at t' = 2t and t' = 2t +
//   8:
//                  a = (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8)
//                  b = (2t, g) (2t+8, g)
//   c = (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1), float32

#ifndef TF_HSM_CC_CORE_CUDA_MMA_H_
#define TF_HSM_CC_CORE_CUDA_MMA_H_

#include <cstdint>

#include "cc/core/cuda/convert.h"
#include "cc/core/cuda/device.h"

namespace tf_hsm {
namespace gpu {

// float32 rounded to tf32, to nearest, ties away from zero.
TF_HSM_DEVICE uint32_t ToTf32(float value) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  const uint32_t bits = FloatBits(value);
  const bool finite = (bits & 0x7f800000) != 0x7f800000;
  return finite ? (bits + 0x1000) & 0xffffe000 : bits;
#endif
}

#ifdef __CUDACC__

#if __CUDA_ARCH__ >= 800
#define TF_HSM_MMA(name)                                                \
  asm volatile("mma.sync.aligned." name                                 \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "        \
               "{%0, %1, %2, %3};"                                      \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), \
                 "r"(b[1]))
#else
#define TF_HSM_MMA(name) __trap()  // dispatch.cu asks the device first
#endif

// T: float for tf32, bfloat16 or half.
template <typename T>
TF_HSM_DEVICE void Mma(float (&c)[4], const uint32_t (&a)[4],
                       const uint32_t (&b)[2]);
template <>
TF_HSM_DEVICE void Mma<float>(float (&c)[4], const uint32_t (&a)[4],
                              const uint32_t (&b)[2]) {
  TF_HSM_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
template <>
TF_HSM_DEVICE void Mma<bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                 const uint32_t (&b)[2]) {
  TF_HSM_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
template <>
TF_HSM_DEVICE void Mma<half>(float (&c)[4], const uint32_t (&a)[4],
                             const uint32_t (&b)[2]) {
  TF_HSM_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
#undef TF_HSM_MMA

#else

// Number `i` along k of a word of a fragment.
template <typename T>
float FromWord(uint32_t word, int i) {
  return Widen(T{static_cast<uint16_t>(word >> (16 * i))});
}
template <>
inline float FromWord<float>(uint32_t word, int) {
  if (word & 0x1fff) emulate::Report("an operand of tf32 is not rounded");
  return BitsFloat(word);
}

template <typename T>
void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Fragments {
    uint32_t a[4], b[2];
  } own = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const char* taken = emulate::block.Exchange("Mma", &own, sizeof(own));
  constexpr int words = 4 / sizeof(T);  // numbers in a word
  const int g = Lane() / 4, t = Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    double sum = c[i];
    for (int k = 0; k < 8 * words; ++k) {
      const int lane = k / words % 4, half_of_k = k / (4 * words);
      const auto left = TakeFrom<Fragments>(taken, row % 8 * 4 + lane);
      const auto right = TakeFrom<Fragments>(taken, column * 4 + lane);
      sum += double{FromWord<T>(left.a[row / 8 + 2 * half_of_k], k % words)} *
             FromWord<T>(right.b[half_of_k], k % words);
    }
    c[i] = static_cast<float>(sum);
  }
}

#endif

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CUDA_MMA_H_
