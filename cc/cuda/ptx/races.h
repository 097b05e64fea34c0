// Finds races: two accesses to the same bytes, at least one of them a write,
// that nothing orders.
//
// Accesses of one thread are ordered, accesses of a block before and after
// a barrier, and accesses of lanes that meet at bar.warp.sync between them.
// Shuffles and votes order nothing: PTX promises an order for barriers alone.
// Launches are ordered. Two blocks of a launch are not, except where one loads
// what the other stored, both by strong accesses, as CUB's scans do: then all
// of the other is before what follows. (Whether the fences around such accesses
// are right is not looked at.) Strong accesses (volatile, relaxed, release,
// acquire, atomic) do not race with each other.

#ifndef TF_HSM_CC_CUDA_PTX_RACES_H_
#define TF_HSM_CC_CUDA_PTX_RACES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace tf_hsm {
namespace ptx {

// Which blocks of a launch are before that which runs.
class BlockOrder {
 public:
  void Start(uint32_t first_epoch) {
    first_epochs_.push_back(first_epoch);
    before_.emplace_back();
  }
  // The running block has loaded what the block of `epoch` stored.
  void Acquire(uint32_t epoch) {
    const size_t other = BlockOf(epoch);
    before_.back().insert(before_[other].begin(), before_[other].end());
    before_.back().insert(other);
  }
  bool IsBefore(uint32_t epoch) const {
    return !before_.back().empty() && before_.back().count(BlockOf(epoch)) > 0;
  }

 private:
  size_t BlockOf(uint32_t epoch) const;

  std::vector<uint32_t> first_epochs_;
  std::vector<std::set<size_t>> before_;  // of each block
};

// Who makes an access, and when. Epochs count the barriers of all blocks of
// all launches, so that each belongs to one block.
struct Moment {
  int thread;
  int statement;
  uint32_t epoch;
  uint32_t block_epoch;   // the first of this block
  uint32_t launch_epoch;  // the first of this launch; what is before is over
  uint32_t syncs;         // bar.warp.sync of the warp so far
  uint32_t last_sync;     // of them, the last that the lane took part in
  bool strong;
  BlockOrder* order;
};

struct Race {
  const char* what = nullptr;  // null: none
  int other = -1;              // the statement of the access before
};

// The last accesses to an array's bytes, by granules.
class Races {
 public:
  Races() = default;
  Races(int64_t bytes, int granule)
      : granule_(granule), cells_((bytes + granule - 1) / granule) {}

  int granule() const { return granule_; }
  bool empty() const { return cells_.empty(); }

  Race OnRead(int64_t offset, int64_t bytes, const Moment& now);
  Race OnWrite(int64_t offset, int64_t bytes, const Moment& now);
  // A copy that writes at some time until its arrival.
  Race OnCopy(int64_t offset, int64_t bytes, const Moment& now);
  void OnArrival(int64_t offset, int64_t bytes, const Moment& now);

 private:
  enum class Scope : uint8_t { kThread, kWarp, kBlock, kGrid };
  struct Record {
    uint32_t epoch = 0;
    uint32_t syncs = 0;
    int32_t statement = -1;
    int16_t thread = -1;
    Scope scope = Scope::kThread;
    bool strong = false;
  };
  struct Cell {
    Record read, write;
    int16_t copier = -1;  // the thread of a copy that has not arrived
  };

  static bool IsOrdered(const Record& before, const Moment& now);
  static Race CheckWrite(const Cell& cell, const Moment& now);
  static void Remember(Record* record, const Moment& now);
  static void RememberRead(Record* record, const Moment& now);
  template <typename F>
  Race ForCells(int64_t offset, int64_t bytes, const F& f);

  int granule_ = 1;
  std::vector<Cell> cells_;
};

}  // namespace ptx
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PTX_RACES_H_
