// The items of a block of BackwardLarge and their nodes, on their way to shared
// memory before they are needed.
//
// An item is read two turns ahead and its node one turn ahead, so that a block
// waits for neither, and can prefetch what its next item reads.

#ifndef TF_HSM_CC_CUDA_LOSS_ITEM_STREAM_H_
#define TF_HSM_CC_CUDA_LOSS_ITEM_STREAM_H_

#include <cstdint>

#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

// Starts to copy an object by as many threads, from thread `first` on, as it
// has words of 8 bytes; zeros unless it is `wanted`.
template <typename V>
TF_HSM_DEVICE void CopyObject(int first, const V* from, bool wanted, V* to) {
  static_assert(sizeof(V) % 8 == 0, "of whole words");
  const int word = ThreadIndex() - first;
  if (word < 0 || word >= static_cast<int>(sizeof(V) / 8)) return;
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  CopyAsync<8>(AddressOf(reinterpret_cast<uint64_t*>(to) + word), words + word,
               wanted ? 8 : 0);
}

class ItemStream {
 public:
  // In shared memory. A turn never overwrites the items and nodes of the turn
  // before, which a slow warp may still read.
  struct Turns {
    Item items[4];
    DeviceNode nodes[2];
  };

  TF_HSM_DEVICE ItemStream(const Item* items, int64_t count,
                           const DeviceNode* nodes, Turns* turns)
      : items_(items), count_(count), nodes_(nodes), turns_(turns) {
    FetchItem(0);
    FetchItem(1);
    Wait();
    FetchNode(0);
    Wait();
  }

  TF_HSM_DEVICE bool HasItem() const { return at_ < count_; }
  // Item and node of this turn (0) or the next one (1), whose node is there
  // after the caller's wait for copies and a barrier. Past the end an item has
  // no examples.
  TF_HSM_DEVICE const Item& ItemOf(int later) const {
    return turns_->items[(turn_ + later) % 4];
  }
  TF_HSM_DEVICE const DeviceNode& NodeOf(int later) const {
    return turns_->nodes[(turn_ + later) % 2];
  }
  // Starts copies that arrive with the caller's next ones.
  TF_HSM_DEVICE void Fetch() const {
    FetchItem(2);
    FetchNode(1);
  }
  TF_HSM_DEVICE void Wait() const {
    CommitCopies();
    WaitForCopies<0>();
    SyncBlock();
  }
  TF_HSM_DEVICE void Advance() {
    at_ += NumBlocks();
    ++turn_;
  }

 private:
  TF_HSM_DEVICE void FetchItem(int later) const {
    const int64_t i = at_ + later * NumBlocks();
    CopyObject(0, items_ + i, i < count_, &turns_->items[(turn_ + later) % 4]);
  }
  TF_HSM_DEVICE void FetchNode(int later) const {
    CopyObject(kWarp, nodes_ + ItemOf(later).node, true,
               &turns_->nodes[(turn_ + later) % 2]);
  }

  const Item* items_;
  int64_t count_;
  const DeviceNode* nodes_;
  Turns* turns_;
  int64_t at_ = BlockIndex();
  unsigned turn_ = 0;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_ITEM_STREAM_H_
