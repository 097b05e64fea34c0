// The matrix instructions of a warp: c [16 x 8] += a [16 x k] b [k x 8].
//
// Fragments, with g = lane / 4 and t = lane % 4 (the PTX manual, "Matrix
// Fragments for mma.m16n8k8" and "m16n8k16"):
//
//   tf32, k = 8
//     a = (g, t) (g+8, t) (g, t+4) (g+8, t+4)
//     b = (t, g) (t+4, g)
//   16 bits, k = 16; a word has two numbers, neighbours along k
//     a = (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8)
//     b = (2t, g) (2t+8, g)
//   both, in float32
//     c = (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)

#ifndef TF_HSM_CC_CUDA_DEVICE_MMA_H_
#define TF_HSM_CC_CUDA_DEVICE_MMA_H_

#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

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

// An accumulator as an operand of T: rounded to tf32 or to T.
template <typename T>
TF_HSM_DEVICE T RoundOperand(Accumulator<T> value) {
  return Narrow<T>(value);
}
template <>
TF_HSM_DEVICE float RoundOperand<float>(float value) {
  return BitsFloat(ToTf32(value) & 0xffffe000);
}

// Four matrices of 8 rows of 16 bytes from shared memory. Lane l gives the
// address of row l % 8 of matrix l / 8, aligned to 16 bytes, and gets of each
// matrix word t of row g; with `transposed`, of numbers of 16 bits, those in
// the rows 2t and 2t + 1 of column g. These are fragments of operands that lie
// with k inside the rows, or outside.
template <bool transposed>
TF_HSM_DEVICE void LoadMatrices(SharedAddress row, uint32_t (&words)[4]);

#ifdef __CUDACC__

#define TF_HSM_LOAD_MATRICES(transposed, name)                        \
  template <>                                                         \
  TF_HSM_DEVICE void LoadMatrices<transposed>(SharedAddress row,      \
                                              uint32_t (&words)[4]) { \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" name                 \
                 ".shared.b16 {%0, %1, %2, %3}, [%4];"                \
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]),    \
                   "=r"(words[3])                                     \
                 : "r"(row));                                         \
  }
TF_HSM_LOAD_MATRICES(false, "")
TF_HSM_LOAD_MATRICES(true, ".trans")
#undef TF_HSM_LOAD_MATRICES

#if __CUDA_ARCH__ >= 800
#define TF_HSM_MMA(name)                                                \
  asm volatile("mma.sync.aligned." name                                 \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "        \
               "{%0, %1, %2, %3};"                                      \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), \
                 "r"(b[1]))
#else
#define TF_HSM_MMA(name) __trap()  // see has_tensor_cores (device.h)
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

template <bool transposed>
void LoadMatrices(SharedAddress row, uint32_t (&words)[4]) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    emulate::Report("a row of a matrix is not aligned");
  }
  const char* taken =
      emulate::block.Exchange("LoadMatrices", &row, sizeof(row));
  if (Lane() % 8 == 0) {
    emulate::Load rows[8];
    for (int i = 0; i < 8; ++i) {
      rows[i] = {TakeFrom<const char*>(taken, Lane() + i), 16};
    }
    emulate::block.CheckBanks(rows, 8);
  }
  const int g = Lane() / 4, t = Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    if (transposed) {
      uint16_t pair[2];
      for (int j = 0; j < 2; ++j) {
        const char* from = TakeFrom<const char*>(taken, 8 * i + 2 * t + j);
        std::memcpy(&pair[j], from + 2 * g, 2);
      }
      words[i] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
    } else {
      std::memcpy(&words[i], TakeFrom<const char*>(taken, 8 * i + g) + 4 * t,
                  4);
    }
  }
}

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
  auto of_lane = [taken](int lane) {
    return reinterpret_cast<const Fragments*>(taken +
                                              lane * emulate::kMaxExchange);
  };
  constexpr int words = 4 / sizeof(T);  // numbers in a word
  const int g = Lane() / 4, t = Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    double sum = c[i];
    for (int k = 0; k < 8 * words; ++k) {
      const int lane = k / words % 4, half_of_k = k / (4 * words);
      const uint32_t left =
          of_lane(row % 8 * 4 + lane)->a[row / 8 + 2 * half_of_k];
      const uint32_t right = of_lane(column * 4 + lane)->b[half_of_k];
      sum +=
          double{FromWord<T>(left, k % words)} * FromWord<T>(right, k % words);
    }
    c[i] = static_cast<float>(sum);
  }
}

#endif

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_MMA_H_
