// A block of threads that runs: warps in a drawn order, some instructions at a
// time.

#ifndef TF_HSM_CC_CUDA_PTX_BLOCK_H_
#define TF_HSM_CC_CUDA_PTX_BLOCK_H_

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/cuda/ptx/launch.h"
#include "cc/cuda/ptx/machine.h"
#include "cc/cuda/ptx/races.h"

namespace tf_hsm {
namespace ptx {

enum class Access : uint8_t { kRead, kWrite };

// A cp.async: `valid` bytes from global memory, then zeros.
struct AsyncCopy {
  int64_t to;  // in shared memory
  uint64_t from;
  int bytes;
  int valid;
};

class Block {
 public:
  Block(Kernel* kernel, const Grid& grid, const std::vector<char>& parameters,
        Device* device);

  // Runs block `index` of the grid. Throws Fault.
  void Run(int64_t index);

  // --- For instructions ---

  // The bytes at an address; throws Fault if they are not there or not
  // aligned, and reports races.
  char* Resolve(const Instruction& in, const Warp& warp, int lane,
                uint64_t address, int bytes, Access access);

  void StartCopy(const Instruction& in, const Warp& warp, int lane,
                 const AsyncCopy& copy);
  void CommitCopies(int thread);
  // Waits for all but the last `left` commits.
  void WaitForCopies(const Instruction& in, const Warp& warp, int lane,
                     size_t left);

  // Reports once per launch, statement and text.
  void Report(const Instruction& in, const std::string& what);
  [[noreturn]] void Fail(const Instruction& in, const std::string& what) const;

 private:
  struct ThreadCopies {
    std::vector<AsyncCopy> open;
    std::deque<std::vector<AsyncCopy>> committed;
  };

  // block.cc
  void Start(int64_t index);
  void SetSpecials(Warp* warp, int64_t index);
  Warp* DrawReady();
  void RunWarp(Warp* warp, int most);
  void Step(Warp* warp, size_t group);
  void Divide(Warp* warp, size_t group, const LaneGroup& away);
  void Meet(Warp* warp, int at);
  bool HaveEnded() const;
  void ReleaseBarrier();

  // block_memory.cc
  char* ResolveShared(const Instruction& in, const Warp& warp, int lane,
                      uint64_t offset, int bytes, Access access);
  char* ResolveGlobal(const Instruction& in, const Warp& warp, int lane,
                      uint64_t address, int bytes, Access access);
  Moment Now(const Instruction& in, const Warp& warp, int lane,
             uint32_t launch_epoch);
  void ReportRace(const Instruction& in, const Race& race);
  void Arrive(const Instruction& in, const Warp& warp, int lane,
              const AsyncCopy& copy);
  void CheckCopiesEnded();

  Kernel* const kernel_;
  const Grid grid_;
  std::vector<char> parameters_;
  Device* const device_;
  const uint32_t launch_epoch_;
  const bool copies_arrive_at_once_;
  uint32_t block_epoch_ = 0;
  std::vector<char> shared_;
  Races shared_races_;
  BlockOrder order_;
  std::vector<Warp> warps_;
  std::vector<Warp*> ready_;
  std::vector<ThreadCopies> copies_;
  std::set<std::pair<int, std::string>> reported_;
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_BLOCK_H_
