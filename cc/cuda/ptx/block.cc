// The order in which the threads of a block run.

#include "cc/cuda/ptx/block.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tf_hsm {
namespace ptx {
namespace {

using State = LaneGroup::State;

// Instructions of a warp before another may run.
constexpr int kMostInstructions = 64;

constexpr char kPoison = '\xff';  // NaN

uint32_t SpecialValue(const std::string& name, const Warp& warp, int lane,
                      const Grid& grid, int64_t index) {
  const uint32_t own = 1u << lane;
  if (name == "%tid.x") return warp.index * kLanes + lane;
  if (name == "%ntid.x") return grid.threads;
  if (name == "%ctaid.x") return static_cast<uint32_t>(index);
  if (name == "%nctaid.x") return static_cast<uint32_t>(grid.blocks);
  if (name == "%laneid") return lane;
  if (name == "%lanemask_eq") return own;
  if (name == "%lanemask_lt") return own - 1;
  if (name == "%lanemask_le") return own | (own - 1);
  if (name == "%lanemask_ge") return ~(own - 1);
  return ~(own | (own - 1));  // %lanemask_gt
}

// Lanes that are at one place in one state are one group.
void Unite(std::vector<LaneGroup>* groups) {
  for (size_t i = 0; i < groups->size(); ++i) {
    for (size_t k = groups->size(); --k > i;) {
      LaneGroup& a = (*groups)[i];
      const LaneGroup& b = (*groups)[k];
      if (a.at != b.at || a.state != b.state) continue;
      a.lanes |= b.lanes;
      groups->erase(groups->begin() + k);
    }
  }
}

}  // namespace

Block::Block(Kernel* kernel, const Grid& grid,
             const std::vector<char>& parameters, Device* device)
    : kernel_(kernel),
      grid_(grid),
      parameters_(parameters),
      device_(device),
      launch_epoch_(device->epoch + 1),
      copies_arrive_at_once_(device->rng() % 2 == 0),
      shared_(SharedBytes(*kernel->entry, grid.dynamic_shared_bytes)),
      shared_races_(shared_.size(), kernel->shared_granule),
      warps_((grid.threads + kLanes - 1) / kLanes),
      copies_(grid.threads) {
  for (size_t i = 0; i < warps_.size(); ++i) {
    Warp& warp = warps_[i];
    warp.block = this;
    warp.index = static_cast<int>(i);
    warp.registers.assign(kernel_->register_bytes, kPoison);
    const int lanes = grid.threads - warp.index * kLanes;
    if (lanes < kLanes) warp.lanes = (1u << lanes) - 1;
    for (const Constant& constant : kernel_->constants) {
      const int bytes = std::max(constant.bytes, 4);
      const int count = constant.bytes == kPredicate ? 1 : kLanes;
      char* row = warp.Row<char>(constant.offset);
      for (int k = 0; k < count; ++k) {
        std::memcpy(row + k * constant.bytes, &constant.bits,
                    constant.bytes == kPredicate ? bytes : constant.bytes);
      }
    }
  }
}

void Block::Run(int64_t index) {
  Start(index);
  while (!HaveEnded()) {
    Warp* warp = DrawReady();
    if (warp == nullptr) {
      ReleaseBarrier();
    } else {
      RunWarp(warp, 1 + static_cast<int>(device_->rng() % kMostInstructions));
    }
  }
  CheckCopiesEnded();
}

void Block::Start(int64_t index) {
  block_epoch_ = ++device_->epoch;
  order_.Start(block_epoch_);
  std::fill(shared_.begin(), shared_.end(), kPoison);
  for (Warp& warp : warps_) {
    warp.groups = {{0, warp.lanes}};
    warp.syncs = 0;
    warp.last_sync.fill(0);
    SetSpecials(&warp, index);
  }
}

void Block::SetSpecials(Warp* warp, int64_t index) {
  for (const Kernel::Special& special : kernel_->specials) {
    uint32_t* row = warp->Row<uint32_t>(special.offset);
    for (int lane = 0; lane < kLanes; ++lane) {
      row[lane] = SpecialValue(special.name, *warp, lane, grid_, index);
    }
  }
}

bool Block::HaveEnded() const {
  return std::all_of(warps_.begin(), warps_.end(),
                     [](const Warp& warp) { return warp.groups.empty(); });
}

// Null if all threads wait.
Warp* Block::DrawReady() {
  ready_.clear();
  for (Warp& warp : warps_) {
    for (const LaneGroup& group : warp.groups) {
      if (group.state != State::kReady) continue;
      ready_.push_back(&warp);
      break;
    }
  }
  return ready_.empty() ? nullptr : ready_[device_->rng() % ready_.size()];
}

// The group of a warp that is furthest behind runs, so that lanes unite
// again behind a branch.
void Block::RunWarp(Warp* warp, int most) {
  for (; most > 0; --most) {
    const std::vector<LaneGroup>& groups = warp->groups;
    size_t next = groups.size();
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].state != State::kReady) continue;
      if (next == groups.size() || groups[i].at < groups[next].at) next = i;
    }
    if (next == groups.size()) return;
    Step(warp, next);
  }
}

void Block::Step(Warp* warp, size_t index) {
  LaneGroup& group = warp->groups[index];
  const int at = group.at;
  const Instruction& in = kernel_->code[at];
  uint32_t active = group.lanes;
  if (in.guard >= 0) {
    const uint32_t mask = warp->Mask(in.guard);
    active &= in.guard_negated ? ~mask : mask;
  }
  if (device_->profiles) ++kernel_->counts[at];
  switch (in.flow) {
    case Flow::kNext:
      warp->active = active;
      if (active != 0) in.execute(in, *warp);
      ++group.at;
      if (warp->groups.size() > 1) Unite(&warp->groups);
      return;
    case Flow::kBranch:
      return Divide(warp, index, {in.target, active});
    case Flow::kExit:
      return Divide(warp, index, {-1, active});
    case Flow::kBarrier:
      return Divide(warp, index, {at, active, State::kAtBarrier});
    case Flow::kMeeting:
      Divide(warp, index, {at, active, State::kAtMeeting});
      return Meet(warp, at);
  }
}

// The lanes of `away` leave the group, which goes on; at -1 they end.
void Block::Divide(Warp* warp, size_t index, const LaneGroup& away) {
  std::vector<LaneGroup>& groups = warp->groups;
  groups[index].lanes &= ~away.lanes;
  ++groups[index].at;
  if (groups[index].lanes == 0) groups.erase(groups.begin() + index);
  if (away.lanes != 0 && away.at >= 0) groups.push_back(away);
  if (groups.size() > 1) Unite(&groups);
}

// Runs a meeting for all lanes whose members have come.
void Block::Meet(Warp* warp, int at) {
  const Instruction& in = kernel_->code[at];
  uint32_t arrived = 0;
  for (const LaneGroup& group : warp->groups) {
    if (group.at == at && group.state == State::kAtMeeting) {
      arrived = group.lanes;
    }
  }
  // A copy: the result may go to the same register.
  std::array<uint32_t, kLanes> members_of;
  members_of.fill(warp->lanes);
  if (in.operands[kMembers] >= 0) {
    const uint32_t* row = warp->Row<uint32_t>(in.operands[kMembers]);
    for (int i = 0; i < kLanes; ++i) members_of[i] &= row[i];
  }
  uint32_t leave = 0;
  for (uint32_t rest = arrived; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const uint32_t members = members_of[lane];
    if (!(members >> lane & 1)) Fail(in, "a lane that is not a member");
    if ((members & arrived) != members || (leave >> lane & 1)) continue;
    for (int other = 0; other < kLanes; ++other) {
      if ((members >> other & 1) && members_of[other] != members) {
        Fail(in, "lanes that name different members");
      }
    }
    warp->active = members;
    in.execute(in, *warp);
    leave |= members;
  }
  if (leave == 0) return;
  std::vector<LaneGroup>& groups = warp->groups;
  for (size_t i = groups.size(); i-- > 0;) {
    if (groups[i].at != at || groups[i].state != State::kAtMeeting) continue;
    groups[i].lanes &= ~leave;
    if (groups[i].lanes == 0) groups.erase(groups.begin() + i);
  }
  groups.push_back({at + 1, leave});
  Unite(&groups);
}

// Called when no thread is ready: all must be at one barrier.
void Block::ReleaseBarrier() {
  const LaneGroup* first = nullptr;
  bool ended = false, any = false, all = true;
  for (Warp& warp : warps_) {
    uint32_t lanes = 0;
    for (const LaneGroup& group : warp.groups) {
      const Instruction& in = kernel_->code[group.at];
      if (group.state != State::kAtBarrier) {
        Fail(in, "lanes wait for others that do not come, at");
      }
      if (first == nullptr) first = &group;
      if (group.at != first->at) {
        Report(in, "threads of a block wait at different barriers: " +
                       Where(*kernel_->module, *kernel_->entry,
                             kernel_->code[first->at].statement) +
                       " and");
      }
      lanes |= group.lanes;
      if (in.operands[1] < 0) continue;
      const uint32_t mask = warp.Mask(in.operands[1]) & group.lanes;
      any = any || mask != 0;
      all = all && mask == group.lanes;
    }
    ended = ended || lanes != warp.lanes;
  }
  if (ended) {
    Report(kernel_->code[first->at], "threads ended before a barrier,");
  }
  ++device_->epoch;
  for (Warp& warp : warps_) {
    for (LaneGroup& group : warp.groups) {
      const Instruction& in = kernel_->code[group.at];
      if (in.operands[0] >= 0) {
        const bool result =
            in.variant == static_cast<uint8_t>(BarrierForm::kAnd) ? all : any;
        uint32_t& mask = warp.Mask(in.operands[0]);
        mask = result ? mask | group.lanes : mask & ~group.lanes;
      }
      group.state = State::kReady;
      ++group.at;
    }
    Unite(&warp.groups);
  }
}

void Block::Report(const Instruction& in, const std::string& what) {
  if (!reported_.insert({in.statement, what}).second) return;
  device_->findings.Add(what + " " +
                        Where(*kernel_->module, *kernel_->entry, in.statement));
}

void Block::Fail(const Instruction& in, const std::string& what) const {
  throw Fault(what + " " +
              Where(*kernel_->module, *kernel_->entry, in.statement));
}

}  // namespace ptx
}  // namespace tf_hsm
