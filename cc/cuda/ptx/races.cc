#include "cc/cuda/ptx/races.h"

#include <algorithm>

#include "cc/cuda/ptx/machine.h"

namespace tf_hsm {
namespace ptx {

size_t BlockOrder::BlockOf(uint32_t epoch) const {
  const auto after =
      std::upper_bound(first_epochs_.begin(), first_epochs_.end(), epoch);
  return after - first_epochs_.begin() - 1;
}

template <typename F>
Race Races::ForCells(int64_t offset, int64_t bytes, const F& f) {
  Race found;
  const int64_t last = (offset + bytes - 1) / granule_;
  for (int64_t i = offset / granule_; i <= last; ++i) {
    const Race race = f(cells_[i]);
    if (race.what != nullptr) found = race;
  }
  return found;
}

// Whether everything in the record is before `now`, or over, or strong as now.
bool Races::IsOrdered(const Record& before, const Moment& now) {
  if (before.thread < 0 || before.epoch < now.launch_epoch) return true;
  if (before.strong && now.strong) return true;
  if (before.scope == Scope::kGrid) return false;
  if (before.epoch < now.block_epoch) return now.order->IsBefore(before.epoch);
  if (before.epoch < now.epoch) return true;
  if (before.scope == Scope::kBlock) return false;
  if (before.scope == Scope::kThread && before.thread == now.thread)
    return true;
  return before.thread / kLanes == now.thread / kLanes &&
         now.last_sync > before.syncs;
}

void Races::Remember(Record* record, const Moment& now) {
  *record = {now.epoch,      now.syncs,
             now.statement,  static_cast<int16_t>(now.thread),
             Scope::kThread, now.strong};
}

// Adds a reader to those that a later write must be ordered with.
void Races::RememberRead(Record* record, const Moment& now) {
  const Record before = *record;
  const bool over = before.thread < 0 || before.epoch < now.launch_epoch;
  Remember(record, now);
  if (over) return;
  if (before.scope == Scope::kGrid || before.epoch < now.block_epoch) {
    record->scope = Scope::kGrid;
  } else if (before.epoch < now.epoch) {
    return;
  } else if (before.scope == Scope::kBlock ||
             before.thread / kLanes != now.thread / kLanes) {
    record->scope = Scope::kBlock;
  } else if ((before.scope == Scope::kWarp || before.thread != now.thread) &&
             now.last_sync <= before.syncs) {
    record->scope = Scope::kWarp;
  }
}

Race Races::CheckWrite(const Cell& cell, const Moment& now) {
  if (!IsOrdered(cell.write, now)) {
    return {"a write after a write", cell.write.statement};
  }
  if (!IsOrdered(cell.read, now)) {
    return {"a write after a read", cell.read.statement};
  }
  return {};
}

Race Races::OnRead(int64_t offset, int64_t bytes, const Moment& now) {
  return ForCells(offset, bytes, [&now](Cell& cell) -> Race {
    Race race;
    const Record& write = cell.write;
    if (now.strong && write.strong && write.epoch >= now.launch_epoch &&
        write.epoch < now.block_epoch) {
      now.order->Acquire(write.epoch);
    }
    if (cell.copier >= 0) {
      race = {"a read of bytes that a copy may not have reached",
              cell.write.statement};
    } else if (!IsOrdered(cell.write, now)) {
      race = {"a read after a write", cell.write.statement};
    }
    // Strong reads are not remembered: what they race with, plain writes, is
    // seen only where these come first.
    if (!now.strong) RememberRead(&cell.read, now);
    return race;
  });
}

Race Races::OnWrite(int64_t offset, int64_t bytes, const Moment& now) {
  return ForCells(offset, bytes, [&now](Cell& cell) -> Race {
    Race race = CheckWrite(cell, now);
    if (cell.copier >= 0) {
      race = {"a write to bytes that a copy may still reach",
              cell.write.statement};
    }
    Remember(&cell.write, now);
    return race;
  });
}

Race Races::OnCopy(int64_t offset, int64_t bytes, const Moment& now) {
  return ForCells(offset, bytes, [&now](Cell& cell) -> Race {
    Race race = CheckWrite(cell, now);
    if (cell.copier >= 0 && cell.copier != now.thread) {
      race = {"a copy to bytes that another copy may still reach",
              cell.write.statement};
    }
    Remember(&cell.write, now);
    cell.copier = static_cast<int16_t>(now.thread);
    return race;
  });
}

void Races::OnArrival(int64_t offset, int64_t bytes, const Moment& now) {
  ForCells(offset, bytes, [&now](Cell& cell) -> Race {
    cell.copier = -1;
    Remember(&cell.write, now);
    return {};
  });
}

}  // namespace ptx
}  // namespace tf_hsm
