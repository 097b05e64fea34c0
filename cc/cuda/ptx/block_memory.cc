// The memory that the threads of a block reach: bounds, alignment, races, and
// copies that arrive later.

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/cuda/ptx/block.h"

namespace tf_hsm {
namespace ptx {

char* Block::Resolve(const Instruction& in, const Warp& warp, int lane,
                     uint64_t address, int bytes, Access access) {
  const bool window = in.space == Space::kGeneric || in.space == Space::kShared;
  if (window && address >= kSharedWindow && address < kParameterWindow) {
    address -= kSharedWindow;
  } else if (in.space != Space::kShared) {
    const bool parameter =
        in.space != Space::kGlobal && address >= kParameterWindow;
    if (!parameter) {
      return ResolveGlobal(in, warp, lane, address, bytes, access);
    }
    const uint64_t offset = address - kParameterWindow;
    if (offset + bytes > parameters_.size() || access == Access::kWrite) {
      Fail(in, "out of the parameters:");
    }
    return parameters_.data() + offset;
  }
  return ResolveShared(in, warp, lane, address, bytes, access);
}

char* Block::ResolveShared(const Instruction& in, const Warp& warp, int lane,
                           uint64_t offset, int bytes, Access access) {
  if (offset > shared_.size() || offset + bytes > shared_.size()) {
    Fail(in, "out of shared memory:");
  }
  if (offset % bytes != 0) Fail(in, "not aligned in shared memory:");
  if (!device_->finds_races) return shared_.data() + offset;
  const Moment now = Now(in, warp, lane, block_epoch_);
  const Race race = access == Access::kRead
                        ? shared_races_.OnRead(offset, bytes, now)
                        : shared_races_.OnWrite(offset, bytes, now);
  if (race.what != nullptr) ReportRace(in, race);
  return shared_.data() + offset;
}

char* Block::ResolveGlobal(const Instruction& in, const Warp& warp, int lane,
                           uint64_t address, int bytes, Access access) {
  Allocation* allocation = device_->memory.Find(address, bytes);
  if (allocation == nullptr) Fail(in, "out of every allocation:");
  if (address % bytes != 0) Fail(in, "not aligned in global memory:");
  if (!device_->finds_races) return reinterpret_cast<char*>(address);
  Races& races = allocation->races;
  if (races.granule() != kernel_->global_granule || races.empty()) {
    races = Races(allocation->bytes, kernel_->global_granule);
  }
  const Moment now = Now(in, warp, lane, launch_epoch_);
  const int64_t offset = address - allocation->begin;
  const Race race = access == Access::kRead ? races.OnRead(offset, bytes, now)
                                            : races.OnWrite(offset, bytes, now);
  if (race.what != nullptr) ReportRace(in, race);
  return reinterpret_cast<char*>(address);
}

Moment Block::Now(const Instruction& in, const Warp& warp, int lane,
                  uint32_t launch_epoch) {
  return {warp.index * kLanes + lane,
          in.statement,
          device_->epoch,
          block_epoch_,
          launch_epoch,
          warp.syncs,
          warp.last_sync[lane],
          in.strong,
          &order_};
}

void Block::ReportRace(const Instruction& in, const Race& race) {
  Report(in, std::string("a race, ") + race.what + " by " +
                 Where(*kernel_->module, *kernel_->entry, race.other) + ":");
}

void Block::StartCopy(const Instruction& in, const Warp& warp, int lane,
                      const AsyncCopy& copy) {
  if (copy.valid < 0 || copy.valid > copy.bytes) {
    Fail(in, "a copy of more bytes than it has:");
  }
  if (copy.to < 0 ||
      copy.to + copy.bytes > static_cast<int64_t>(shared_.size())) {
    Fail(in, "out of shared memory:");
  }
  if (copy.to % copy.bytes != 0) Fail(in, "not aligned in shared memory:");
  const Moment now = Now(in, warp, lane, block_epoch_);
  const Race race = shared_races_.OnCopy(copy.to, copy.bytes, now);
  if (race.what != nullptr) ReportRace(in, race);
  if (copies_arrive_at_once_) {
    Arrive(in, warp, lane, copy);
  } else {
    std::memset(shared_.data() + copy.to, 0xff, copy.bytes);
  }
  copies_[now.thread].open.push_back(copy);
}

// A partly valid copy reads its valid bytes only, from an aligned address.
void Block::Arrive(const Instruction& in, const Warp& warp, int lane,
                   const AsyncCopy& copy) {
  char* to = shared_.data() + copy.to;
  if (copy.valid > 0) {
    if (copy.from % copy.bytes != 0) Fail(in, "not aligned in global memory:");
    for (int i = 0; i < copy.valid; i += kernel_->global_granule) {
      const int bytes = std::min(kernel_->global_granule, copy.valid - i);
      ResolveGlobal(in, warp, lane, copy.from + i, bytes, Access::kRead);
    }
    std::memcpy(to, reinterpret_cast<const char*>(copy.from), copy.valid);
  }
  std::memset(to + copy.valid, 0, copy.bytes - copy.valid);
}

void Block::CommitCopies(int thread) {
  ThreadCopies& copies = copies_[thread];
  copies.committed.push_back(std::move(copies.open));
  copies.open.clear();
}

void Block::WaitForCopies(const Instruction& in, const Warp& warp, int lane,
                          size_t left) {
  const Moment now = Now(in, warp, lane, block_epoch_);
  auto& committed = copies_[now.thread].committed;
  for (; committed.size() > left; committed.pop_front()) {
    for (const AsyncCopy& copy : committed.front()) {
      if (!copies_arrive_at_once_) Arrive(in, warp, lane, copy);
      shared_races_.OnArrival(copy.to, copy.bytes, now);
    }
  }
}

void Block::CheckCopiesEnded() {
  for (ThreadCopies& copies : copies_) {
    bool left = !copies.open.empty();
    for (const auto& group : copies.committed) left = left || !group.empty();
    copies = ThreadCopies();
    if (left) {
      Report(kernel_->code.back(),
             "a thread ends with copies that it never "
             "waited for, behind");
    }
  }
}

}  // namespace ptx
}  // namespace tf_hsm
