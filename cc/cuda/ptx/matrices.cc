// mma and ldmatrix.
//
// The layouts of fragments are CUTLASS's, which have run on hardware
// (cute/atom/mma_traits_sm80.hpp, copy_traits_sm75.hpp): a lane's value is the
// element of a matrix, in column-major order, whose index is a sum of strides.
// The sums of mma are exact, and then cut off as the hardware's.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/block.h"
#include "cc/cuda/ptx/float16.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr int kM = 16, kN = 8;

// ((4, 8), (2, 2, 2)) with strides ((lane, 1), (...)): an element of a column
// major matrix.
struct FragmentLayout {
  int Index(int lane, int value) const {
    return lane % 4 * lane_stride + lane / 4 + (value & 1) * strides[0] +
           (value >> 1 & 1) * strides[1] + (value >> 2 & 1) * strides[2];
  }
  int lane_stride;
  int strides[3];
};

// A [16 x k], B [8 x k] and C [16 x 8] of mma.m16n8k8 and .m16n8k16.
constexpr FragmentLayout kTf32A = {16, {8, 64, 0}}, kTf32B = {8, {32, 0, 0}},
                         kHalfA = {32, {16, 8, 128}}, kHalfB = {16, {8, 64, 0}},
                         kSums = {32, {16, 8, 0}};

// `value` of a lane's words, which have one number each, or two.
struct Tf32 {
  static constexpr int kDepth = 8, kPerWord = 1;
  static constexpr FragmentLayout kA = kTf32A, kB = kTf32B;
  // The low 13 bits do not count.
  static float Number(uint32_t word, int) {
    return BitsToFloat(word & 0xffffe000);
  }
};
struct Bfloat16 {
  static constexpr int kDepth = 16, kPerWord = 2;
  static constexpr FragmentLayout kA = kHalfA, kB = kHalfB;
  static float Number(uint32_t word, int i) {
    return Bfloat16ToFloat(static_cast<uint16_t>(word >> (16 * i)));
  }
};
struct Half : Bfloat16 {
  static float Number(uint32_t word, int i) {
    return HalfToFloat(static_cast<uint16_t>(word >> (16 * i)));
  }
};

float CutOff(double value) {
  const float near = static_cast<float>(value);
  return std::fabs(double{near}) > std::fabs(value) ? std::nextafterf(near, 0)
                                                    : near;
}

// Operands: 0 to 3 results, 4 to 7 A, 8 and 9 B, 10 to 13 C.
template <typename Format>
void Mma(const Instruction& in, Warp& warp) {
  constexpr int depth = Format::kDepth, per_word = Format::kPerWord;
  double a[depth][kM], b[depth][kN], c[kN][kM];
  auto word = [&](int operand, int lane) {
    return warp.Row<uint32_t>(in.operands[operand])[lane];
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int v = 0; v < 4 * per_word; ++v) {
      (&a[0][0])[Format::kA.Index(lane, v)] =
          Format::Number(word(4 + v / per_word, lane), v % per_word);
    }
    for (int v = 0; v < 2 * per_word; ++v) {
      (&b[0][0])[Format::kB.Index(lane, v)] =
          Format::Number(word(8 + v / per_word, lane), v % per_word);
    }
    for (int v = 0; v < 4; ++v) {
      (&c[0][0])[kSums.Index(lane, v)] = BitsToFloat(word(10 + v, lane));
    }
  }
  for (int k = 0; k < depth; ++k) {
    for (int n = 0; n < kN; ++n) {
      for (int m = 0; m < kM; ++m) c[n][m] += a[k][m] * b[k][n];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int v = 0; v < 4; ++v) {
      warp.Row<float>(in.operands[v])[lane] =
          CutOff((&c[0][0])[kSums.Index(lane, v)]);
    }
  }
}

// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 and the like.
void DecodeMma(Assembler& a) {
  struct Form {
    const char* words[7];
    Execute execute;
  };
  constexpr Form kForms[] = {
      {{"m16n8k8", "row", "col", "f32", "tf32", "tf32", "f32"}, Mma<Tf32>},
      {{"m16n8k16", "row", "col", "f32", "bf16", "bf16", "f32"}, Mma<Bfloat16>},
      {{"m16n8k16", "row", "col", "f32", "f16", "f16", "f32"}, Mma<Half>}};
  Instruction& in = a.instruction();
  in.flow = Flow::kMeeting;
  a.Take("sync");
  a.Take("aligned");
  for (const Form& form : kForms) {
    std::string name = "mma.sync.aligned";
    for (const char* word : form.words) name += std::string(".") + word;
    if (name != a.statement().opcode) continue;
    in.execute = form.execute;
    for (const char* word : form.words) a.Take(word);
  }
  if (in.execute == nullptr) a.Fail("an unknown mma");
  int at = 0;
  for (size_t i = 0; i < 4; ++i) {
    for (const Operand& part : a.operand(i).parts) {
      if (i == 0) {
        a.Target(at++, part, 4);
      } else {
        a.Source(at++, part, 4, i == 3);
      }
    }
  }
  if (at != 14) a.Fail("another number of registers");
}

// Operands: 0 to 3 results, 4 the address of a lane's row of 16 bytes.
template <bool transposed>
void LoadMatrices(const Instruction& in, Warp& warp) {
  char rows[kLanes][16];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t address =
        warp.Row<uint32_t>(in.operands[4])[lane] + in.displacement;
    std::memcpy(rows[lane],
                warp.block->Resolve(in, warp, lane, address, 16, Access::kRead),
                16);
  }
  // An index of CUTLASS counts bits: 128 a row, 1,024 a matrix.
  auto byte_at = [&rows](int bit) { return &rows[bit / 128][bit % 128 / 8]; };
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t word = 0;
      if (transposed) {
        for (int i = 0; i < 2; ++i) {
          uint16_t half;
          std::memcpy(
              &half,
              byte_at(lane % 4 * 256 + lane / 4 * 16 + i * 128 + matrix * 1024),
              sizeof(half));
          word |= uint32_t{half} << (16 * i);
        }
      } else {
        std::memcpy(&word, byte_at(lane * 32 + matrix * 1024), sizeof(word));
      }
      warp.Row<uint32_t>(in.operands[matrix])[lane] = word;
    }
  }
}

void DecodeLoadMatrices(Assembler& a) {
  Instruction& in = a.instruction();
  in.flow = Flow::kMeeting;
  in.space = Space::kShared;
  for (const char* word : {"sync", "aligned", "m8n8", "x4", "shared", "b16"}) {
    if (!a.Take(word)) a.Fail("an unknown ldmatrix");
  }
  in.execute = a.Take("trans") ? LoadMatrices<true> : LoadMatrices<false>;
  if (a.operand(0).parts.size() != 4) a.Fail("another number of registers");
  for (int i = 0; i < 4; ++i) a.Target(i, a.operand(0).parts[i], 4);
  a.Address(4, a.operand(1));
  if (in.operand_bytes[4] != 4) a.Fail("an address of 32 bits");
}

}  // namespace

void AddMatrices(OpcodeTable* table) {
  table->families["mma"] = DecodeMma;
  table->families["ldmatrix"] = DecodeLoadMatrices;
}

}  // namespace ptx
}  // namespace tf_hsm
