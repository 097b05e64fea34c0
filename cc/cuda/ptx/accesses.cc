// Loads, stores and atomic operations.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/block.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr int kAddress = 4;  // the operand behind up to four elements

uint64_t AddressOf(const Instruction& in, Warp& warp, int lane) {
  const int32_t offset = in.operands[kAddress];
  const uint64_t base = in.operand_bytes[kAddress] == 4
                            ? warp.Row<uint32_t>(offset)[lane]
                            : warp.Row<uint64_t>(offset)[lane];
  return base + in.displacement;
}

// S: the number in memory; R: its register.
template <typename S, typename R>
void Load(const Instruction& in, Warp& warp) {
  for (uint32_t mask = warp.active; mask != 0; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    const char* from =
        warp.block->Resolve(in, warp, lane, AddressOf(in, warp, lane),
                            sizeof(S) * in.elements, Access::kRead);
    S values[4];
    std::memcpy(values, from, sizeof(S) * in.elements);
    for (int i = 0; i < in.elements; ++i) {
      warp.Row<R>(in.operands[i])[lane] = static_cast<R>(values[i]);
    }
  }
}

template <typename S, typename R>
void Store(const Instruction& in, Warp& warp) {
  for (uint32_t mask = warp.active; mask != 0; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    S values[4];
    for (int i = 0; i < in.elements; ++i) {
      values[i] = static_cast<S>(warp.Row<R>(in.operands[i])[lane]);
    }
    char* to = warp.block->Resolve(in, warp, lane, AddressOf(in, warp, lane),
                                   sizeof(S) * in.elements, Access::kWrite);
    std::memcpy(to, values, sizeof(S) * in.elements);
  }
}

template <template <typename, typename> class Operation, typename S>
Execute ForRegister(Assembler& a, int register_bytes) {
  switch (register_bytes) {
    case 2:
      return Operation<S, uint16_t>::run;
    case 4:
      return Operation<S, uint32_t>::run;
    case 8:
      return Operation<S, uint64_t>::run;
  }
  a.Fail("a register of an unknown size");
}

template <template <typename, typename> class Operation>
Execute ForTypes(Assembler& a, const Type& type, int register_bytes) {
  switch (type.bytes) {
    case 1:
      return type.is_signed
                 ? ForRegister<Operation, int8_t>(a, register_bytes)
                 : ForRegister<Operation, uint8_t>(a, register_bytes);
    case 2:
      return type.is_signed
                 ? ForRegister<Operation, int16_t>(a, register_bytes)
                 : ForRegister<Operation, uint16_t>(a, register_bytes);
    case 4:
      return type.is_signed
                 ? ForRegister<Operation, int32_t>(a, register_bytes)
                 : ForRegister<Operation, uint32_t>(a, register_bytes);
    case 8:
      return ForRegister<Operation, uint64_t>(a, register_bytes);
  }
  a.Fail("an unknown type");
}

template <typename S, typename R>
struct Loads {
  static constexpr Execute run = Load<S, R>;
};
template <typename S, typename R>
struct Stores {
  static constexpr Execute run = Store<S, R>;
};

// Takes the words that say where an access goes, and how.
void TakeSpace(Assembler& a) {
  Instruction& in = a.instruction();
  if (a.Take("global") || a.Take("const")) {
    in.space = Space::kGlobal;
  } else if (a.Take("shared")) {
    a.Take("cta");
    in.space = Space::kShared;
  } else if (a.Take("param")) {
    in.space = Space::kParameter;
  }
  for (const char* word : {"volatile", "relaxed", "acquire", "release"}) {
    in.strong = a.Take(word) || in.strong;
  }
  for (const char* word : {"cta", "gpu", "sys"}) a.Take(word);
  // Caches change no result.
  for (const char* word :
       {"nc", "ca", "cg", "cs", "cv", "lu", "wb", "wt", "L1::no_allocate",
        "L1::evict_first", "L2::evict_first", "L2::128B", "L2::256B"}) {
    a.Take(word);
  }
}

// Bytes that are watched together are no more than any access has.
void NoteBytes(Assembler& a, int bytes) {
  const Space space = a.instruction().space;
  Kernel& kernel = a.kernel();
  if (space == Space::kShared || space == Space::kGeneric) {
    kernel.shared_granule = std::min(kernel.shared_granule, bytes);
  }
  if (space == Space::kGlobal || space == Space::kGeneric) {
    kernel.global_granule = std::min(kernel.global_granule, bytes);
  }
}

void DecodeAccess(Assembler& a, bool loads) {
  Instruction& in = a.instruction();
  const Type& type = a.TakeType();
  in.elements = a.Take("v4") ? 4 : a.Take("v2") ? 2 : 1;
  in.element_bytes = static_cast<uint8_t>(type.bytes);
  TakeSpace(a);
  NoteBytes(a, type.bytes);
  a.Address(kAddress, a.operand(loads ? 1 : 0));
  const Operand& numbers = a.operand(loads ? 0 : 1);
  const bool vector = numbers.kind == Operand::Kind::kVector;
  if (static_cast<size_t>(in.elements) != (vector ? numbers.parts.size() : 1)) {
    a.Fail("another number of elements");
  }
  int register_bytes = 0;
  for (int i = 0; i < in.elements; ++i) {
    const Operand& number = vector ? numbers.parts[i] : numbers;
    // A register may be wider than the number in memory.
    const bool is_register = number.kind == Operand::Kind::kRegister;
    const int bytes = is_register ? -1 : std::max(type.bytes, 2);
    if (loads) {
      a.Target(i, number, bytes);
    } else {
      a.Source(i, number, bytes, type.is_float);
    }
    if (is_register) register_bytes = in.operand_bytes[i];
  }
  if (register_bytes == 0) register_bytes = std::max(type.bytes, 2);
  for (int i = 0; i < in.elements; ++i) {
    if (in.operand_bytes[i] != register_bytes || register_bytes < type.bytes) {
      a.Fail("registers of different sizes");
    }
  }
  in.execute = loads ? ForTypes<Loads>(a, type, register_bytes)
                     : ForTypes<Stores>(a, type, register_bytes);
}

void DecodeLoad(Assembler& a) {
  DecodeAccess(a, true);
  const Instruction& in = a.instruction();
  if (in.strong && in.space != Space::kShared)
    a.kernel().waits_for_blocks = true;
}
void DecodeStore(Assembler& a) { DecodeAccess(a, false); }

enum class AtomicForm : uint8_t {
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kExchange,
  kSwap
};

template <typename T>
T Combine(AtomicForm form, T before, T given, T other) {
  switch (form) {
    case AtomicForm::kAdd:
      return before + given;
    case AtomicForm::kMin:
      return std::min(before, given);
    case AtomicForm::kMax:
      return std::max(before, given);
    case AtomicForm::kExchange:
      return given;
    case AtomicForm::kSwap:  // cas
      return before == given ? other : before;
    default:
      break;
  }
  if constexpr (std::is_integral<T>::value) {
    return form == AtomicForm::kAnd ? before & given : before | given;
  }
  return before;
}

// Operands: 0 what was there, or nothing; 1 and 2 what is given.
template <typename T>
void Atomic(const Instruction& in, Warp& warp) {
  for (uint32_t mask = warp.active; mask != 0; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    char* at = warp.block->Resolve(in, warp, lane, AddressOf(in, warp, lane),
                                   sizeof(T), Access::kWrite);
    T before;
    std::memcpy(&before, at, sizeof(T));
    const T given = warp.Row<T>(in.operands[1])[lane];
    const T other =
        in.operands[2] < 0 ? T() : warp.Row<T>(in.operands[2])[lane];
    const T after =
        Combine(static_cast<AtomicForm>(in.variant), before, given, other);
    std::memcpy(at, &after, sizeof(T));
    if (in.operands[0] >= 0) warp.Row<T>(in.operands[0])[lane] = before;
  }
}

void DecodeAtomic(Assembler& a, bool returns) {
  constexpr const char* kForms[] = {"add", "min",  "max", "and",
                                    "or",  "exch", "cas"};
  Instruction& in = a.instruction();
  const Type& type = a.TakeType();
  TakeSpace(a);
  in.strong = true;
  NoteBytes(a, type.bytes);
  in.variant = 255;
  for (uint8_t i = 0; i < std::size(kForms); ++i) {
    if (a.Take(kForms[i])) in.variant = i;
  }
  if (in.variant == 255) a.Fail("an unknown atomic operation");
  const int first = returns ? 1 : 0;
  if (returns) a.Target(0, a.operand(0), type.bytes);
  a.Address(kAddress, a.operand(first));
  a.Source(1, a.operand(first + 1), type.bytes, type.is_float);
  if (a.NumOperands() > first + 2) {
    a.Source(2, a.operand(first + 2), type.bytes, type.is_float);
  }
  if (type.is_float) {
    in.execute = type.bytes == 4 ? Atomic<float> : Atomic<double>;
  } else if (type.is_signed) {
    in.execute = type.bytes == 4 ? Atomic<int32_t> : Atomic<int64_t>;
  } else {
    in.execute = type.bytes == 4 ? Atomic<uint32_t> : Atomic<uint64_t>;
  }
  if (type.bytes < 4) a.Fail("an atomic operation of 4 or 8 bytes");
}

}  // namespace

void AddAccesses(OpcodeTable* table) {
  table->families["ld"] = DecodeLoad;
  table->families["st"] = DecodeStore;
  table->families["atom"] = [](Assembler& a) { DecodeAtomic(a, true); };
  table->families["red"] = [](Assembler& a) { DecodeAtomic(a, false); };
}

}  // namespace ptx
}  // namespace tf_hsm
