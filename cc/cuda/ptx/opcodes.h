// The table of opcodes.
//
// Most compute one result of each lane from its operands: Each adds such an
// opcode with a function on the numbers of one lane, whose types are those of
// the operands. Others have a decoder of their own, by their first word.

#ifndef TF_HSM_CC_CUDA_PTX_OPCODES_H_
#define TF_HSM_CC_CUDA_PTX_OPCODES_H_

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/cuda/ptx/machine.h"

namespace tf_hsm {
namespace ptx {

class Assembler;

using Decoder = void (*)(Assembler&);

struct OperandType {
  int bytes;  // kPredicate: a predicate
  bool is_float;
};

struct Scalar {
  Execute execute;
  std::vector<OperandType> operands;
  // Where operands may lie in registers that are wider than their types, as
  // those of conversions; or null.
  Execute execute_wide;
};

// A lane's operand in its row, which may have wider numbers.
template <typename T, bool wide>
struct Reader {
  Reader(const Instruction& in, Warp& warp, int i)
      : row(warp.Row<const char>(in.operands[i])),
        stride(in.operand_bytes[i]) {}
  T operator()(int lane) const {
    if constexpr (wide) {
      return *reinterpret_cast<const T*>(row + lane * stride);
    } else {
      return reinterpret_cast<const T*>(row)[lane];
    }
  }
  const char* row;
  int stride;
};
template <bool wide>
struct Reader<bool, wide> {
  Reader(const Instruction& in, Warp& warp, int i)
      : mask(warp.Mask(in.operands[i])) {}
  bool operator()(int lane) const { return mask >> lane & 1; }
  uint32_t mask;
};

// Registers have 16 bits or more: one with a result of 8 bits gets all bits.
template <typename T>
struct Writer {
  Writer(const Instruction& in, Warp& warp)
      : row(warp.Row<char>(in.operands[0])), bytes(in.operand_bytes[0]) {}
  void operator()(int lane, T value) {
    if constexpr (sizeof(T) > 1) {
      reinterpret_cast<T*>(row)[lane] = value;
    } else if (bytes == 2) {
      reinterpret_cast<int16_t*>(row)[lane] = value;
    } else if (bytes == 4) {
      reinterpret_cast<int32_t*>(row)[lane] = value;
    } else {
      reinterpret_cast<int64_t*>(row)[lane] = value;
    }
  }
  char* row;
  int bytes;
};
template <>
struct Writer<bool> {
  Writer(const Instruction& in, Warp& warp)
      : mask(&warp.Mask(in.operands[0])), bits(*mask) {}
  ~Writer() { *mask = bits; }
  void operator()(int lane, bool value) {
    bits = (bits & ~(1u << lane)) | static_cast<uint32_t>(value) << lane;
  }
  uint32_t* mask;
  uint32_t bits;
};

template <typename Op>
struct Signature : Signature<decltype(&Op::operator())> {};

template <typename Op, typename R, typename... A>
struct Signature<R (Op::*)(A...) const> {
  static std::vector<OperandType> Operands() {
    return {TypeOf<R>(), TypeOf<A>()...};
  }
  template <bool wide>
  static void Run(const Instruction& in, Warp& warp) {
    Run<wide>(in, warp, std::index_sequence_for<A...>());
  }

  // The function that Each was given; it has no state.
  static inline const Op* op = nullptr;

 private:
  template <typename T>
  static OperandType TypeOf() {
    return {std::is_same<T, bool>::value ? kPredicate : int{sizeof(T)},
            std::is_floating_point<T>::value};
  }
  template <bool wide, size_t... i>
  static void Run(const Instruction& in, Warp& warp,
                  std::index_sequence<i...>) {
    Writer<R> result(in, warp);
    const auto compute = [&result](int lane, const auto&... readers) {
      result(lane, (*op)(readers(lane)...));
    };
    RunLanes(warp.active, compute, Reader<A, wide>(in, warp, 1 + i)...);
  }
  template <typename Compute, typename... Readers>
  static void RunLanes(uint32_t active, const Compute& compute,
                       const Readers&... readers) {
    ForLanes(active, [&](int lane) { compute(lane, readers...); });
  }
};

class OpcodeTable {
 public:
  // `name` as spelled in PTX. `op` must have no state.
  template <typename Op>
  void Each(const std::string& name, const Op& op) {
    static_assert(std::is_empty<Op>::value, "a function without a state");
    static const Op kept = op;
    using Own = Signature<Op>;
    Own::op = &kept;
    scalars[name] = {&Own::template Run<false>, Own::Operands(), nullptr};
  }
  template <typename Op>
  void EachConversion(const std::string& name, const Op& op) {
    Each(name, op);
    scalars[name].execute_wide = &Signature<Op>::template Run<true>;
  }

  std::map<std::string, Scalar> scalars;
  std::map<std::string, Decoder> families;  // by first word
};

// Calls f(T(), "s32") for types of integers, and of floating-point numbers.
template <typename F>
void ForSigned(const F& f) {
  f(int16_t(), "s16"), f(int32_t(), "s32"), f(int64_t(), "s64");
}
template <typename F>
void ForUnsigned(const F& f) {
  f(uint16_t(), "u16"), f(uint32_t(), "u32"), f(uint64_t(), "u64");
}
template <typename F>
void ForIntegers(const F& f) {
  ForSigned(f), ForUnsigned(f);
}
template <typename F>
void ForBits(const F& f) {
  f(uint16_t(), "b16"), f(uint32_t(), "b32"), f(uint64_t(), "b64");
}
template <typename F>
void ForFloats(const F& f) {
  f(float(), "f32"), f(double(), "f64");
}

// Each file of operations adds its own.
void AddIntegerArithmetic(OpcodeTable* table);
void AddFloatArithmetic(OpcodeTable* table);
void AddBits(OpcodeTable* table);
void AddComparisons(OpcodeTable* table);
void AddConversions(OpcodeTable* table);
void AddMoves(OpcodeTable* table);
void AddControl(OpcodeTable* table);
void AddAccesses(OpcodeTable* table);
void AddCopies(OpcodeTable* table);
void AddMeetings(OpcodeTable* table);
void AddMatrices(OpcodeTable* table);

// All of them.
const OpcodeTable& Opcodes();

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_OPCODES_H_
