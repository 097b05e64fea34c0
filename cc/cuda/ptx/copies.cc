// cp.async: copies from global to shared memory that arrive later.

#include <algorithm>
#include <cstdint>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/block.h"
#include "cc/cuda/ptx/opcodes.h"

namespace tf_hsm {
namespace ptx {
namespace {

// Operands: 0 to, 1 from, 2 the bytes that are valid.
void Copy(const Instruction& in, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    const uint64_t to = in.operand_bytes[0] == 4
                            ? warp.Row<uint32_t>(in.operands[0])[lane]
                            : warp.Row<uint64_t>(in.operands[0])[lane];
    const AsyncCopy copy = {
        static_cast<int64_t>(to) + in.displacement,
        warp.Row<uint64_t>(in.operands[1])[lane], in.element_bytes,
        static_cast<int>(warp.Row<uint32_t>(in.operands[2])[lane])};
    warp.block->StartCopy(in, warp, lane, copy);
  });
}

void Commit(const Instruction&, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    warp.block->CommitCopies(warp.index * kLanes + lane);
  });
}

// Operand 0: how many commits may still be open.
void Wait(const Instruction& in, Warp& warp) {
  ForLanes(warp.active, [&](int lane) {
    const uint32_t left = warp.Row<uint32_t>(in.operands[0])[lane];
    warp.block->WaitForCopies(in, warp, lane, left);
  });
}

void DecodeCopy(Assembler& a) {
  Instruction& in = a.instruction();
  if (!a.Take("async")) a.Fail("only cp.async");
  if (a.Take("commit_group")) {
    in.execute = Commit;
    return;
  }
  if (a.Take("wait_group")) {
    a.Source(0, a.operand(0), 4);
    in.execute = Wait;
    return;
  }
  const bool past_l1 = a.Take("cg");
  if (!past_l1 && !a.Take("ca")) a.Fail("no .ca or .cg");
  if (!a.Take("shared") || !a.Take("global")) a.Fail("from global to shared");
  const uint64_t bytes = a.operand(2).bits;
  if (!(bytes == 16 || (!past_l1 && (bytes == 4 || bytes == 8)))) {
    a.Fail("a copy of another size");
  }
  a.Address(1, a.operand(1));
  if (in.displacement != 0 || in.operand_bytes[1] != 8) a.Fail("an address");
  a.Address(0, a.operand(0));
  a.Source(2, a.operand(a.NumOperands() > 3 ? 3 : 2), 4);
  in.element_bytes = static_cast<uint8_t>(bytes);
  in.execute = Copy;
  Kernel& kernel = a.kernel();
  kernel.shared_granule =
      std::min(kernel.shared_granule, static_cast<int>(bytes));
  kernel.global_granule =
      std::min(kernel.global_granule, static_cast<int>(bytes));
}

}  // namespace

void AddCopies(OpcodeTable* table) { table->families["cp"] = DecodeCopy; }

}  // namespace ptx
}  // namespace tf_hsm
