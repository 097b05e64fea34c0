// Moves, branches, and what changes no result.

#include <cstdint>
#include <cstring>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/block.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

// Operand 0 from the halves 1 and 2.
template <typename Whole, typename Half>
void Pack(const Instruction& in, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    const Half low = warp.Row<Half>(in.operands[1])[lane];
    const Half high = warp.Row<Half>(in.operands[2])[lane];
    warp.Row<Whole>(in.operands[0])[lane] = low | static_cast<Whole>(high)
                                                      << (8 * sizeof(Half));
  });
}

// Operands 0 and 1 from 2.
template <typename Whole, typename Half>
void Unpack(const Instruction& in, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    const Whole whole = warp.Row<Whole>(in.operands[2])[lane];
    warp.Row<Half>(in.operands[0])[lane] = static_cast<Half>(whole);
    warp.Row<Half>(in.operands[1])[lane] =
        static_cast<Half>(whole >> (8 * sizeof(Half)));
  });
}

// mov between a register and two of half its size; others are scalars.
void DecodeMove(Assembler& a) {
  Instruction& in = a.instruction();
  const int bytes = a.TakeType().bytes;
  if (bytes != 4 && bytes != 8) a.Fail("halves of 16 or 32 bits");
  const bool packs = a.operand(1).kind == Operand::Kind::kVector;
  const Operand& halves = a.operand(packs ? 1 : 0);
  if (halves.parts.size() != 2) a.Fail("another number of parts");
  if (packs) {
    a.Target(0, a.operand(0), bytes);
    for (int i = 0; i < 2; ++i) a.Source(1 + i, halves.parts[i], bytes / 2);
    in.execute =
        bytes == 4 ? Pack<uint32_t, uint16_t> : Pack<uint64_t, uint32_t>;
  } else {
    for (int i = 0; i < 2; ++i) a.Target(i, halves.parts[i], bytes / 2);
    a.Source(2, a.operand(1), bytes);
    in.execute =
        bytes == 4 ? Unpack<uint32_t, uint16_t> : Unpack<uint64_t, uint32_t>;
  }
}

void DecodeBranch(Assembler& a) {
  Instruction& in = a.instruction();
  a.Take("uni");
  in.flow = Flow::kBranch;
  const auto& labels = a.kernel().entry->labels;
  const auto label = labels.find(a.operand(0).name);
  if (label == labels.end()) a.Fail("no label " + a.operand(0).name);
  in.target = label->second;
}

void DecodeExit(Assembler& a) { a.instruction().flow = Flow::kExit; }

void DecodeTrap(Assembler& a) {
  a.instruction().execute = [](const Instruction& in, Warp& warp) {
    warp.block->Fail(in, "the kernel stops itself:");
  };
}

// One launch runs at a time, one warp after the other: fences, prefetches and
// waits have nothing to do. They order no plain accesses (see races.h).
void DecodeNothing(Assembler& a) {
  for (const char* word : {"cta", "gl", "gpu", "sys", "sc", "acq_rel", "u32",
                           "global", "L1", "L2"}) {
    a.Take(word);
  }
  a.instruction().execute = [](const Instruction&, Warp&) {};
}

void ActiveMask(const Instruction& in, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    warp.Row<uint32_t>(in.operands[0])[lane] = warp.active;
  });
}

void DecodeActiveMask(Assembler& a) {
  a.Take("b32");
  a.Target(0, a.operand(0), 4);
  a.instruction().execute = ActiveMask;
}

}  // namespace

void AddMoves(OpcodeTable* table) {
  const auto add = [=](auto zero, const std::string& type) {
    using T = decltype(zero);
    table->Each("mov." + type, [](T a) { return a; });
  };
  ForIntegers(add);
  ForBits(add);
  ForFloats(add);
  table->Each("mov.pred", [](bool a) { return a; });
  table->families["mov"] = DecodeMove;
}

void AddControl(OpcodeTable* table) {
  table->families["bra"] = DecodeBranch;
  table->families["ret"] = DecodeExit;
  table->families["exit"] = DecodeExit;
  table->families["trap"] = DecodeTrap;
  table->families["activemask"] = DecodeActiveMask;
  for (const char* name : {"membar", "fence", "prefetch", "nanosleep"}) {
    table->families[name] = DecodeNothing;
  }
}

const OpcodeTable& Opcodes() {
  static const OpcodeTable table = [] {
    OpcodeTable all;
    AddIntegerArithmetic(&all);
    AddFloatArithmetic(&all);
    AddBits(&all);
    AddComparisons(&all);
    AddConversions(&all);
    AddMoves(&all);
    AddControl(&all);
    AddAccesses(&all);
    AddCopies(&all);
    AddMeetings(&all);
    AddMatrices(&all);
    return all;
  }();
  return table;
}

}  // namespace ptx
}  // namespace tf_hsm
