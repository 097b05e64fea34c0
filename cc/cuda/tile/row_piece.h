// A piece of a row that one thread takes at once: neighbours, in an access as
// wide as 16 bytes, and how they are rounded.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_PIECE_H_
#define TF_HSM_CC_CUDA_TILE_ROW_PIECE_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cc/core/update/random_bits.h"
#include "cc/cuda/device/convert.h"

namespace tf_hsm::gpu {

template <typename V, int length>
struct alignas(length * sizeof(V) < 16 ? length * sizeof(V) : 16) Neighbours {
  V values[length];
};

// Numbers of T, widened and narrowed; in pairs where they have 16 bits.
template <typename T, int length>
class RowPiece {
 public:
  using A = Accumulator<T>;

  TF_HSM_DEVICE A Get(int j) const {
    if constexpr (kPairs) {
      return Widen(
          T{static_cast<uint16_t>(words_.values[j / 2] >> (j % 2 * 16))});
    } else {
      return Widen(words_.values[j]);
    }
  }

  // Rounds to nearest; with `stochastic` away from zero with the probability of
  // the bits that are cut off. `random` is the counter of the row's random
  // bits, of which two neighbours share 32; `column` is the row's of the first
  // number.
  template <bool stochastic>
  TF_HSM_DEVICE void Set(const A (&from)[length], uint32_t random,
                         uint32_t column) {
    const uint32_t counter = random + column / 2;
    TF_HSM_UNROLL
    for (int j = 0; j < length; j += kStep) {
      uint32_t bits = 0;
      if constexpr (stochastic) bits = RandomBits(counter + j / 2);
      if constexpr (kPairs && stochastic) {
        words_.values[j / 2] =
            RoundUpwards(from[j], bits & 0xffff) >> 16 |
            (RoundUpwards(from[j + 1], bits >> 16) & 0xffff0000);
      } else if constexpr (kPairs) {
        words_.values[j / 2] = NarrowPair<T>(from[j], from[j + 1]);
      } else if constexpr (stochastic) {
        bits = column % 2 == 0 ? bits & 0xffff : bits >> 16;
        words_.values[j] = {
            static_cast<uint16_t>(RoundUpwards(from[j], bits) >> 16)};
      } else {
        words_.values[j] = Narrow<T>(from[j]);
      }
    }
  }

 private:
  static constexpr bool kPairs = sizeof(T) == 2 && length % 2 == 0;
  static constexpr int kStep = kPairs ? 2 : 1;  // numbers of a word

  // The upper half is the rounded number. A NaN that an operation has made says
  // so there.
  TF_HSM_DEVICE static uint32_t RoundUpwards(float value, uint32_t random) {
    return FloatBits(value) + (Abs(value) < INFINITY ? random : 0);
  }

  Neighbours<std::conditional_t<kPairs, uint32_t, T>, length / kStep> words_;
};

template <typename Piece, typename V>
TF_HSM_DEVICE const Piece* InPieces(const V* numbers) {
  return reinterpret_cast<const Piece*>(numbers);
}
template <typename Piece, typename V>
TF_HSM_DEVICE Piece* InPieces(V* numbers) {
  return reinterpret_cast<Piece*>(numbers);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_ROW_PIECE_H_
