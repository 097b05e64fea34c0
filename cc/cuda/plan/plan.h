// Which groups a batch touches, found on the device (cc/core/plan/plan.h finds
// them on the host), and the pieces of work that the kernels take.
//
// Examples are sorted by the depth-first rank of their leaf: those that pass a
// group are then one interval [begin, end) of the sorted order. Comments and
// names of kernels use these words:
//
//   node    a group that the batch touches
//   pass    one example at one group of its path. Its number is level * size +
//           sorted position, so the passes of a node are consecutive.
//   small   a node of at most kMaxSmallFanout rows, as on the CPU
//   large   a node of more rows, and every node of a label tree
//   hot     a large node of more than kMaxStreamExamples examples, where the
//           device has the shared memory: hot_sums.h makes gradients of its
//           logits, which are kept. Hot nodes get their room before others;
//           where it ends, the first examples of one node are hot, in whole
//           tiles, and its others are as those of a node that is not.
//   tile    kTileRows rows x kTileExamples examples of a large node, kHotTile x
//           kHotTile where it is hot
//   item    some tiles of a large node, of the forward also half tiles of
//           fewer examples, or some examples of a small node: what one block
//           or warp does at a time. Nodes are cut into about kTargetItems
//           items, or twice as many of half tiles; hot nodes into `hot_items`,
//           which also bounds the memory for their partial results.

#ifndef TF_HSM_CC_CUDA_PLAN_PLAN_H_
#define TF_HSM_CC_CUDA_PLAN_PLAN_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/plan/node.h"

namespace tf_hsm::gpu {

// What the device counted.
struct Counts {
  int64_t num_rows;
  int64_t num_nodes;
  Cuts cuts;
  NodeWork work;
};

// Most of everything that labels can ask for, from shapes alone.
struct Bounds {
  int64_t passes = 0;
  int64_t nodes = 0;
  int64_t rows = 0;  // of the parameters, as below
  int64_t forward_items = 0;
  int64_t forward_slots = 0;
  int64_t backward_items = 0;
  int64_t small_items = 0;
  int64_t merge_slots = 0;
  int64_t logits = 0;
  int64_t hot_items = 0;  // target of hot nodes; 0: no node is hot
  int64_t forward_examples = kTileExamples;  // of an item that is not hot
  bool one_block = false;                    // whether one block makes the plan
};

// `hot_items` hold if any logits are kept.
Bounds BoundsOf(const TreeView& tree, const TreeShape& shape, int64_t size,
                int64_t logits, int64_t hot_items, int64_t forward_examples);

// Where the plan is; made by MakePlan, read by the kernels.
struct DevicePlan {
  int32_t* order = nullptr;      // [size], sorted position -> example
  int32_t* depths = nullptr;     // [size], groups on the path; 0: no loss
  int64_t* path_rows = nullptr;  // [depth, size], the row on the path, or -1
  DeviceNode* nodes = nullptr;   // [bounds.nodes]
  NodeTotals* totals = nullptr;  // [bounds.nodes]
  NodeWork* work = nullptr;      // [bounds.nodes]
  Counts* counts = nullptr;      // [1]
  int64_t size = 0;

  TF_HSM_HOST_DEVICE int64_t Pass(int64_t level, int64_t position) const {
    return level * size + position;
  }
  // Rows of the nodes before node n among all touched rows.
  TF_HSM_HOST_DEVICE int64_t RowsBefore(int64_t n) const {
    return n == 0 ? 0 : totals[n - 1].rows;
  }
};

// What MakePlan alone uses, in the scratch.
struct PlanScratch {
  uint64_t* keys = nullptr;          // [size or bounds.nodes, the larger]
  uint64_t* sorted_keys = nullptr;   // likewise
  int32_t* values = nullptr;         // likewise
  int32_t* sorted_values = nullptr;  // likewise
  int32_t* depths = nullptr;         // [size], by example
  int64_t* opened = nullptr;         // [size], nodes that begin at an example
  int64_t* opened_sums = nullptr;    // [size]
  DeviceNode* unsorted = nullptr;    // [bounds.nodes]
  NodeTotals* totals = nullptr;      // [bounds.nodes]
  NodeWork* work = nullptr;          // [bounds.nodes]
  void* sort = nullptr;
  int64_t sort_bytes = 0;
};

// Bytes of `sort`.
int64_t SortBytes(const TreeView& tree, int64_t size, const Bounds& bounds);

// Makes the plan, and lists the items of the forward unless `forward_items` is
// null; writes the losses of examples without a path. Returns an empty string,
// or a sentence that says what is wrong; then there is no plan.
template <typename T>
std::string MakePlan(const Batch<T>& batch, const Bounds& bounds,
                     const DevicePlan& plan, const PlanScratch& scratch,
                     Accumulator<T>* loss, Item* forward_items, void* stream);

// Items of the forward; of the backward at large nodes, at hot parts, and at
// small nodes.
enum class ItemKind { kForward, kBackward, kHotBackward, kSmall };

void ListForward(const Bounds& bounds, const DevicePlan& plan, Item* items,
                 void* stream);

// What the backward goes by.
struct BackwardLists {
  Item* items = nullptr;  // [bounds.backward_items], those of hot parts first
  Item* small_items = nullptr;  // [bounds.small_items]
  int64_t* rows = nullptr;      // [capacity], the touched ones, then -1
  int64_t capacity = 0;
};

// Without examples only the rows are listed.
void ListBackward(const Bounds& bounds, const DevicePlan& plan,
                  const BackwardLists& lists, void* stream);

// The first of `count` ascending sums, of which `member` is compared, that is
// above `value`.
template <typename Sums>
TF_HSM_DEVICE int64_t FindSum(const Sums* sums, int64_t Sums::* member,
                              int64_t count, int64_t value) {
  int64_t low = 0;
  while (low < count) {
    const int64_t middle = (low + count) / 2;
    if (sums[middle].*member > value) {
      count = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_PLAN_H_
