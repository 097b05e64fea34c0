// Rows of weights in 8 or 4 bits, which answers read in place of floats:
//
//   w[r][d] = scales[r][d / block] * code[r][d]
//
// A code of 8 bits lies in a byte of its own, as int8. Codes of 4 bits, from -8
// to 7 in two's complement, lie block by block: of a block of n columns, byte i
// has column i in its low half, and column i + (n + 1) / 2 in its high half. So
// vectors of codes need no shuffle.

#ifndef TF_HSM_CC_CORE_BASE_QUANTIZED_ROWS_H_
#define TF_HSM_CC_CORE_BASE_QUANTIZED_ROWS_H_

#include <cstdint>

namespace tf_hsm {

struct QuantizedRows {
  const uint8_t* codes = nullptr;  // [rows, RowBytes()]; null: there are none
  const float* scales = nullptr;   // [rows, NumBlocks()]
  int bits = 8;                    // or 4
  int64_t width = 0;
  int64_t block = 0;  // columns of a scale, even but for a single block

  int64_t RowBytes() const { return bits == 8 ? width : (width + 1) / 2; }
  int64_t NumBlocks() const { return (width + block - 1) / block; }

  // The same rows from row `first` on.
  QuantizedRows From(int64_t first) const {
    if (codes == nullptr) return *this;
    QuantizedRows rows = *this;
    rows.codes += first * RowBytes();
    rows.scales += first * NumBlocks();
    return rows;
  }

  // One number, as a specification of the layout.
  float At(int64_t row, int64_t d) const {
    const uint8_t* code = codes + row * RowBytes();
    const float scale = scales[row * NumBlocks() + d / block];
    if (bits == 8) return scale * static_cast<int8_t>(code[d]);
    const int64_t first = d / block * block;
    const int64_t n = width - first < block ? width - first : block;
    const int64_t half = (n + 1) / 2, i = d - first;
    const uint8_t byte = code[first / 2 + (i < half ? i : i - half)];
    const int value = i < half ? byte & 15 : byte >> 4;
    return scale * (value < 8 ? value : value - 16);
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_QUANTIZED_ROWS_H_
