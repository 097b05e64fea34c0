// The machine that runs a kernel: decoded instructions, and the registers of a
// warp.

#ifndef TF_HSM_CC_CUDA_PTX_MACHINE_H_
#define TF_HSM_CC_CUDA_PTX_MACHINE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

// Addresses of shared memory and of parameters among all others, which are
// those of the host.
constexpr uint64_t kSharedWindow = uint64_t{1} << 60;
constexpr uint64_t kParameterWindow = uint64_t{2} << 60;

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kParameter };

// How the lanes of a warp go on behind an instruction.
enum class Flow : uint8_t {
  kNext,
  kBranch,
  kExit,
  kBarrier,  // waits for all threads of the block
  kMeeting,  // waits for lanes of the warp, and runs once for all of them
};

struct Instruction;
class Block;

// A group of lanes at one place of the code.
struct LaneGroup {
  enum class State : uint8_t { kReady, kAtBarrier, kAtMeeting };
  int at;  // an index of Kernel::code
  uint32_t lanes;
  State state = State::kReady;
};

struct Warp {
  // A row has a number per lane; a predicate, a bit per lane.
  template <typename T>
  T* Row(int offset) {
    return reinterpret_cast<T*>(registers.data() + offset);
  }
  uint32_t& Mask(int offset) { return *Row<uint32_t>(offset); }

  std::vector<char> registers;
  Block* block = nullptr;
  int index = 0;
  uint32_t lanes = kAllLanes;  // that exist
  uint32_t active = 0;         // that run the instruction
  std::vector<LaneGroup> groups;
  // Counts bar.warp.sync: of the warp, and of each lane the last that it took
  // part in. They order accesses to memory.
  uint32_t syncs = 0;
  std::array<uint32_t, kLanes> last_sync = {};
};

using Execute = void (*)(const Instruction&, Warp&);

constexpr int kMaxOperands = 16;

// The place of the lanes that a meeting is of; none: all of the warp.
constexpr int kMembers = kMaxOperands - 1;

// How a barrier reduces the predicates of all threads.
enum class BarrierForm : uint8_t { kPlain, kAnd, kOr };

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::kNext;
  bool guard_negated = false;
  int32_t guard = -1;   // a predicate's offset; -1: none
  int32_t target = -1;  // of a branch
  int32_t statement = -1;
  // Offsets in Warp::registers, results first; -1: not used.
  std::array<int32_t, kMaxOperands> operands;
  std::array<uint8_t, kMaxOperands> operand_bytes = {};

  // Which of the forms of its opcode; decoders say.
  uint8_t variant = 0;

  // For an access to memory: `elements` of `element_bytes` at an address.
  Space space = Space::kGeneric;
  bool strong = false;  // volatile, relaxed, acquire, release or atomic
  uint8_t element_bytes = 0;
  uint8_t elements = 1;
  int64_t displacement = 0;

  Instruction() { operands.fill(-1); }
};

// A number that every lane has in its row.
struct Constant {
  int32_t offset;
  int bytes;
  uint64_t bits;
};

struct Kernel {
  const Module* module = nullptr;
  const Entry* entry = nullptr;
  std::vector<Instruction> code;
  std::vector<Constant> constants;
  // Rows of numbers that differ between threads or blocks.
  struct Special {
    std::string name;
    int32_t offset;
  };
  std::vector<Special> specials;
  int64_t register_bytes = 0;  // of a warp
  // Bytes of the smallest access: what is watched for races together.
  int shared_granule = 16, global_granule = 16;
  // Loads that other blocks' stores may end: those blocks must have run.
  bool waits_for_blocks = false;
  std::vector<int64_t> counts;  // of executions by warps, if profiled
};

// Calls f(lane) for the lanes of `mask`.
template <typename F>
void ForLanes(uint32_t mask, const F& f) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(__builtin_ctz(mask));
}

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_MACHINE_H_
