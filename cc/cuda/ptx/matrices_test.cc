// mma and ldmatrix on fragments that are laid out by the tables of the PTX
// manual ("Matrix Fragments for mma.m16n8k8" and "m16n8k16"), which are written
// in another way than the layouts of the interpreter.

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint32_t PackBits(float value) { return BitsOf(value); }
template <typename T>
uint32_t PackBits(T value) {
  return value.bits;
}

// A [16 x k] and B [k x 8] in rows; C [16 x 8].
template <typename T>
struct Product {
  static constexpr int kDepth = 32 / sizeof(T), kPerWord = 4 / sizeof(T);

  std::vector<T> a, b;
  std::vector<float> c;

  // Word `i` of a lane's four words of A, two of B, four of C.
  uint32_t AWord(int lane, int i) const {
    const int row = lane / 4 + i % 2 * 8;
    const int k = (lane % 4 + i / 2 * 4) * kPerWord;
    return Word([&](int n) { return a[row * kDepth + k + n]; });
  }
  uint32_t BWord(int lane, int i) const {
    const int k = (lane % 4 + i * 4) * kPerWord;
    return Word([&](int n) { return b[(k + n) * 8 + lane / 4]; });
  }
  static int CIndex(int lane, int i) {
    return (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
  }
  template <typename F>
  static uint32_t Word(const F& number) {
    uint32_t word = 0;
    for (int n = 0; n < kPerWord; ++n) word |= PackBits(number(n)) << (16 * n);
    return word;
  }
};

constexpr char kMmaBody[] =
    "mad.wide.u32 %rd1, %r0, 64, %rd0;"
    "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];"
    "ld.global.v2.u32 {%r5, %r6}, [%rd1+16];"
    "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+32];"
    "mma.sync.aligned.SHAPE {%f5, %f6, %f7, %f8}, {%r1, %r2, %r3, %r4}, "
    "{%r5, %r6}, {%f1, %f2, %f3, %f4};"
    "st.global.v4.f32 [%rd1+48], {%f5, %f6, %f7, %f8};";

// Runs it, with `extra` bits in the words of A and B.
template <typename T>
std::vector<float> Multiply(const Product<T>& p, const std::string& shape,
                            uint32_t extra) {
  std::vector<uint32_t> words(32 * 16);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      words[16 * lane + i] = p.AWord(lane, i) | extra;
      if (i < 2) words[16 * lane + 4 + i] = p.BWord(lane, i) | extra;
      words[16 * lane + 8 + i] = BitsOf(p.c[p.CIndex(lane, i)]);
    }
  }
  std::string body = kMmaBody;
  body.replace(body.find("SHAPE"), 5, shape);
  TestDevice device;
  const uint64_t at = device.Upload(words);
  ExpectClean(device.Run(body, {1, 32}, {at}), shape);
  const auto all = TestDevice::Download<float>(at, words.size());
  std::vector<float> sums(128);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i)
      sums[p.CIndex(lane, i)] = all[16 * lane + 12 + i];
  }
  return sums;
}

template <typename T>
void CheckMma(const std::string& shape) {
  constexpr int depth = Product<T>::kDepth;
  std::mt19937 rng(3);
  Product<T> p;
  p.a = Draw<T>(16 * depth, 64, &rng);
  p.b = Draw<T>(depth * 8, 64, &rng);
  p.c = Draw<float>(128, 64, &rng);
  // Their sums are exact in float32; the low bits of tf32 must not count.
  const auto sums = Multiply(p, shape, 0);
  if (sizeof(T) == 4) {
    Expect(SameBits(sums, Multiply(p, shape, 0x1fff)), "low bits of tf32");
  }
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      double want = p.c[m * 8 + n];
      for (int k = 0; k < depth; ++k) {
        want += ToDouble(p.a[m * depth + k]) * ToDouble(p.b[k * 8 + n]);
      }
      Near(sums[m * 8 + n], want, 0, shape);
    }
  }
  // 1 + 2^-24 + 2^-24 is not rounded up to the next number, but cut off there.
  p.a.assign(16 * depth, FromDouble<T>(0));
  p.b.assign(depth * 8, FromDouble<T>(0));
  p.a[0] = p.b[0] = FromDouble<T>(std::ldexp(1, -12));
  p.a[1] = FromDouble<T>(std::ldexp(1, -12));
  p.b[8] = FromDouble<T>(std::ldexp(1, -13));
  p.c[0] = 1;
  Near(Multiply(p, shape, 0)[0], 1, 0, shape + " cuts off");
}

// Number c of row r of matrix i is 64 i + 8 r + c.
void CheckLoadMatrices(const std::string& transposed) {
  const std::string body =
      "mov.u32 %r80, dynamic; mad.lo.u32 %r8, %r0, 16, %r80;"
      "mad.wide.u32 %rd1, %r0, 16, %rd0;"
      "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];"
      "st.shared.v4.u32 [%r8], {%r1, %r2, %r3, %r4}; bar.sync 0;"
      "ldmatrix.sync.aligned.m8n8.x4" +
      transposed +
      ".shared.b16 {%r1, %r2, %r3, %r4}, [%r8];"
      "st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};";
  std::vector<uint16_t> numbers(256);
  for (int i = 0; i < 256; ++i) numbers[i] = static_cast<uint16_t>(i);
  TestDevice device;
  const uint64_t at = device.Upload(numbers);
  ExpectClean(device.Run(body, {1, 32, 512}, {at}), "ldmatrix" + transposed);
  const auto words = TestDevice::Download<uint32_t>(at, 128);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int g = lane / 4, t = lane % 4;
      // Two of a row; transposed, two of a column.
      const int first = transposed.empty() ? 8 * g + 2 * t : 8 * (2 * t) + g;
      const int second = first + (transposed.empty() ? 1 : 8);
      const uint32_t want = (64 * i + first) | (64 * i + second) << 16;
      Expect(words[4 * lane + i] == want, "ldmatrix" + transposed);
    }
  }
}

void CheckFailures() {
  TestDevice device;
  const std::string load =
      "mov.u32 %r80, dynamic; mad.lo.u32 %r8, %r0, 16, %r80;\n"
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, ";
  ExpectFound(device.Run(load + "[%r8+8];", {1, 32, 520}, {0}), "not aligned",
              {"not aligned in shared memory", "line 13"});
  ExpectFound(device.Run(load + "[%r8+16];", {1, 32, 512}, {0}), "too far",
              {"out of shared memory", "line 13"});
  ExpectFound(device.Run("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
                         "{%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, "
                         "{%f1, %f2, %f3, %f4};",
                         {1, 32}, {0}),
              "another shape", {"unknown mma"});
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;       // NOLINT
  using namespace tf_hsm::ptx;  // NOLINT
  CheckMma<float>("m16n8k8.row.col.f32.tf32.tf32.f32");
  CheckMma<bfloat16>("m16n8k16.row.col.f32.bf16.bf16.f32");
  CheckMma<half>("m16n8k16.row.col.f32.f16.f16.f32");
  CheckLoadMatrices("");
  CheckLoadMatrices(".trans");
  CheckFailures();
  return Summarize();
}
