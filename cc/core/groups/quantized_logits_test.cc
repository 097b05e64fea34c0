// Log-probabilities of quantized rows against the same rows as floats,
// bit for bit, on every ISA; the rows are decoded one number at a time here.

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/base/quantized_rows.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// Bytes that end where their buffer does: a read past them is an error under
// AddressSanitizer.
template <typename S>
std::vector<S> DrawBytes(int64_t count, std::mt19937* rng) {
  std::vector<S> values(count);
  for (S& value : values) value = static_cast<S>((*rng)());
  return values;
}

void Check(Isa isa, int64_t width, int bits, int64_t block, bool pinned,
           std::mt19937* rng) {
  // Groups of 1, 6 and 70 rows; of a pinned tree, 23 of two rows.
  std::vector<int64_t> offsets = {0, 1, 7, 77};
  if (pinned) {
    offsets.clear();
    for (int64_t g = 0; g <= 23; ++g) offsets.push_back(2 * g);
  }
  const int64_t rows = offsets.back(), made = pinned ? rows / 2 : rows;
  const int64_t examples = 7;
  QuantizedRows quantized;
  quantized.bits = bits;
  quantized.width = width;
  quantized.block = block;
  const auto codes = DrawBytes<uint8_t>(made * quantized.RowBytes(), rng);
  const auto scales = Draw<float>(made * quantized.NumBlocks(), 256, rng);
  quantized.codes = codes.data();
  quantized.scales = scales.data();
  std::vector<float> weights(made * width);
  for (int64_t r = 0; r < made; ++r) {
    for (int64_t d = 0; d < width; ++d) {
      weights[r * width + d] = quantized.At(r, d);
    }
  }
  std::vector<float> x(examples * Padded(width));
  for (int64_t m = 0; m < examples; ++m) {
    const auto row = Draw<float>(width, 64, rng);
    std::copy(row.begin(), row.end(), x.begin() + m * Padded(width));
  }
  const auto biases = Draw<float>(made, 64, rng);

  GroupRows<float> in;
  in.weights = weights.data();
  in.biases = biases.data();
  in.width = width;
  in.x = x.data();
  in.num_examples = examples;
  in.group_offsets = offsets.data();
  in.num_groups = offsets.size() - 1;
  in.pinned = pinned;
  std::vector<float> expected(examples * rows), found(examples * rows);
  const auto& table = KernelTableFor<float>(isa);
  table.log_softmax(in, expected.data(), rows);
  in.weights = nullptr;
  in.quantized = quantized;
  table.log_softmax(in, found.data(), rows);
  Expect(std::memcmp(expected.data(), found.data(),
                     found.size() * sizeof(float)) == 0,
         std::string(IsaName(isa)) + ": " + std::to_string(bits) +
             " bits, width " + std::to_string(width) + ", block " +
             std::to_string(block) + (pinned ? ", pinned" : ""));
}

void Run() {
  std::mt19937 rng(7);
  for (const Isa isa : SupportedIsas()) {
    for (const int64_t width : {1, 2, 3, 15, 16, 17, 63, 64, 65, 100, 127, 128,
                                131, 300, 301, 640, 5000}) {
      for (const int bits : {8, 4}) {
        for (const int64_t block : {width, int64_t{64}}) {
          for (const bool pinned : {false, true}) {
            Check(isa, width, bits, block, pinned, &rng);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  tf_hsm::Run();
  return tf_hsm::Summarize();
}
