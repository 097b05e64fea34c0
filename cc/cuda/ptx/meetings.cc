// What the lanes of a warp do together: shuffles, votes, bar.warp.sync.

#include <algorithm>
#include <cstdint>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/block.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

enum class ShuffleForm : uint8_t { kUp, kDown, kXor, kIndex };

struct Choice {
  int lane;
  bool in_range;
};

// The lane that `lane` reads. `clamp` has the width of segments in its bits 8
// to 12, and their last lane in bits 0 to 4 (PTX manual, shfl.sync).
Choice ChooseLane(ShuffleForm form, int lane, uint32_t given, uint32_t clamp) {
  const int segment = clamp >> 8 & 31, b = given & 31;
  const int most = (lane & segment) | (clamp & 31 & ~segment);
  int chosen = lane;
  bool in_range = true;
  switch (form) {
    case ShuffleForm::kUp:
      chosen = lane - b;
      in_range = chosen >= most;
      break;
    case ShuffleForm::kDown:
      chosen = lane + b;
      in_range = chosen <= most;
      break;
    case ShuffleForm::kXor:
      chosen = lane ^ b;
      in_range = chosen <= most;
      break;
    case ShuffleForm::kIndex:
      chosen = (lane & segment) | (b & ~segment);
      in_range = chosen <= most;
      break;
  }
  return {in_range ? chosen : lane, in_range};
}

// Operands: 0 result, 1 whether its lane is in range, 2 value, 3 lane, 4 clamp.
void Shuffle(const Instruction& in, Warp& warp) {
  uint32_t values[kLanes];
  std::copy_n(warp.Row<uint32_t>(in.operands[2]), kLanes, values);
  uint32_t in_range = 0;
  ForLanes(warp.active, [&](int lane) {
    const Choice choice = ChooseLane(static_cast<ShuffleForm>(in.variant), lane,
                                     warp.Row<uint32_t>(in.operands[3])[lane],
                                     warp.Row<uint32_t>(in.operands[4])[lane]);
    if (!(warp.active >> choice.lane & 1)) {
      warp.block->Fail(in, "a lane that is not a member is read by");
    }
    warp.Row<uint32_t>(in.operands[0])[lane] = values[choice.lane];
    in_range |= static_cast<uint32_t>(choice.in_range) << lane;
  });
  if (in.operands[1] < 0) return;
  uint32_t& mask = warp.Mask(in.operands[1]);
  mask = (mask & ~warp.active) | in_range;
}

void DecodeShuffle(Assembler& a) {
  constexpr const char* kForms[] = {"up", "down", "bfly", "idx"};
  Instruction& in = a.instruction();
  in.flow = Flow::kMeeting;
  in.execute = Shuffle;
  if (!a.Take("sync") || a.TakeType().bytes != 4) a.Fail("shfl.sync of b32");
  in.variant = 255;
  for (uint8_t i = 0; i < std::size(kForms); ++i) {
    if (a.Take(kForms[i])) in.variant = i;
  }
  if (in.variant == 255) a.Fail("an unknown shuffle");
  const Operand& result = a.operand(0);
  const bool pair = result.kind == Operand::Kind::kVector;
  a.Target(0, pair ? result.parts[0] : result, 4);
  if (pair) a.Target(1, result.parts[1], kPredicate);
  for (int i = 1; i < 4; ++i) a.Source(i + 1, a.operand(i), 4);
  a.Source(kMembers, a.operand(4), 4);
}

enum class VoteForm : uint8_t { kBallot, kAny, kAll, kUniform };

// Operands: 0 result, 1 predicate.
void Vote(const Instruction& in, Warp& warp) {
  const uint32_t members = warp.active;
  const uint32_t mask = warp.Mask(in.operands[1]) & members;
  if (static_cast<VoteForm>(in.variant) == VoteForm::kBallot) {
    ForLanes(members, [&](int lane) {
      warp.Row<uint32_t>(in.operands[0])[lane] = mask;
    });
    return;
  }
  bool result = mask == members;
  if (static_cast<VoteForm>(in.variant) == VoteForm::kAny) result = mask != 0;
  if (static_cast<VoteForm>(in.variant) == VoteForm::kUniform) {
    result = result || mask == 0;
  }
  uint32_t& target = warp.Mask(in.operands[0]);
  target = result ? target | members : target & ~members;
}

// vote.sync.ballot.b32 or vote.ballot.sync.b32.
void DecodeVote(Assembler& a) {
  constexpr const char* kForms[] = {"ballot", "any", "all", "uni"};
  Instruction& in = a.instruction();
  in.flow = Flow::kMeeting;
  in.execute = Vote;
  in.variant = 255;
  for (uint8_t i = 0; i < std::size(kForms); ++i) {
    if (a.Take(kForms[i])) in.variant = i;
  }
  if (!a.Take("sync") || in.variant == 255) a.Fail("an unknown vote");
  const bool ballot = a.Take("b32");
  if (ballot != (in.variant == 0) || (!ballot && !a.Take("pred"))) {
    a.Fail("an unknown vote");
  }
  a.Target(0, a.operand(0), ballot ? 4 : kPredicate);
  a.Source(1, a.operand(1), kPredicate);
  a.Source(kMembers, a.operand(2), 4);
}

// For each lane, the lanes with the same value.
template <typename T>
void Match(const Instruction& in, Warp& warp) {
  const T* values = warp.Row<T>(in.operands[1]);
  ForLanes(warp.active, [&](int lane) {
    uint32_t same = 0;
    for (int other = 0; other < kLanes; ++other) {
      same |= static_cast<uint32_t>(values[other] == values[lane]) << other;
    }
    warp.Row<uint32_t>(in.operands[0])[lane] = same & warp.active;
  });
}

void DecodeMatch(Assembler& a) {
  Instruction& in = a.instruction();
  in.flow = Flow::kMeeting;
  if (!a.Take("any") || !a.Take("sync")) a.Fail("an unknown match");
  const int bytes = a.TakeType().bytes;
  in.execute = bytes == 8 ? Match<uint64_t> : Match<uint32_t>;
  a.Target(0, a.operand(0), 4);
  a.Source(1, a.operand(1), bytes);
  a.Source(kMembers, a.operand(2), 4);
}

void SyncWarp(const Instruction&, Warp& warp) {
  ++warp.syncs;
  ForLanes(warp.active, [&](int lane) { warp.last_sync[lane] = warp.syncs; });
}

// bar.warp.sync; bar.sync 0 and bar.red, of all threads of the block.
void DecodeBarrier(Assembler& a) {
  Instruction& in = a.instruction();
  if (a.Take("warp")) {
    a.Take("sync");
    in.flow = Flow::kMeeting;
    in.execute = SyncWarp;
    a.Source(kMembers, a.operand(0), 4);
    return;
  }
  in.flow = Flow::kBarrier;
  a.Take("cta");
  a.Take("aligned");
  const bool reduces = a.Take("red");
  if (reduces) {
    const bool all = a.Take("and");
    if ((!all && !a.Take("or")) || !a.Take("pred")) a.Fail("another bar.red");
    in.variant =
        static_cast<uint8_t>(all ? BarrierForm::kAnd : BarrierForm::kOr);
    a.Target(0, a.operand(0), kPredicate);
    a.Source(1, a.operand(2), kPredicate);
  } else if (!a.Take("sync")) {
    a.Fail("an unknown barrier");
  }
  const Operand& number = a.operand(reduces ? 1 : 0);
  if (number.kind != Operand::Kind::kInteger || number.bits != 0 ||
      a.NumOperands() != (reduces ? 3 : 1)) {
    a.Fail("only barrier 0, of all threads");
  }
}

}  // namespace

void AddMeetings(OpcodeTable* table) {
  table->families["shfl"] = DecodeShuffle;
  table->families["vote"] = DecodeVote;
  table->families["match"] = DecodeMatch;
  table->families["bar"] = DecodeBarrier;
  table->families["barrier"] = DecodeBarrier;
}

}  // namespace ptx
}  // namespace tf_hsm
