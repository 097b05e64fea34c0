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
//   large   a node of more rows
//   hot     a large node of more than kMaxStreamExamples examples, where the
//           device has the shared memory and the logits of the node are kept,
//           which hot_sums.h makes into gradients
//   tile    kTileRows rows x kTileExamples examples of a large node, kHotTile x
//           kHotTile of a hot one. A hot tile counts as the kTilesPerHotTile
//           others that it replaces, so that all bounds hold for both.
//   item    some tiles of a large node, or some examples of a small one: what
//           one block or warp does at a time. Nodes are cut into about
//           kTargetItems items, which also bounds the memory for their partial
//           results.

#ifndef TF_HSM_CC_CUDA_PLAN_PLAN_H_
#define TF_HSM_CC_CUDA_PLAN_PLAN_H_

#include <cstdint>
#include <string>

#include "cc/core/plan/plan.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm {
namespace gpu {

// Arithmetic chose these numbers; no measurement has (docs/gpu.md).
constexpr int kTileRows = 32;
constexpr int kTileExamples = 32;
constexpr int kHotTile = 128;
constexpr int64_t kTilesPerHotTile =
    (kHotTile / kTileRows) * (kHotTile / kTileExamples);
constexpr int64_t kMaxStreamExamples = 64;  // of a node that is not hot
constexpr int64_t kTargetItems = 2048;
constexpr int64_t kMaxHotItems = 512;       // target of items of hot nodes
constexpr int64_t kMinRowTiles = 4;         // of an item of the forward
constexpr int64_t kMinExampleTiles = 8;     // of an item of the backward
constexpr int64_t kMinHotExampleTiles = 2;  // likewise at a hot node
constexpr int64_t kMinSmallExamples = 64;   // of an item at a small node

static_assert(kMaxHotItems * kHotTile <= kTargetItems * kTileRows &&
                  kHotTile == kMinRowTiles * kTileRows &&
                  kMinHotExampleTiles * kHotTile ==
                      kMinExampleTiles * kTileExamples,
              "BoundsOf counts slots of hot nodes as those of others");

// A touched group. The nodes of a state stand in the order of their groups.
struct DeviceNode {
  int64_t group;
  int64_t first_row;
  int64_t fanout;
  int64_t logits_offset;  // of its kept logits [end - begin, fanout]; -1: none
  int32_t level;
  int32_t begin;
  int32_t end;
  int32_t hot;

  TF_HSM_HOST_DEVICE int64_t population() const { return end - begin; }
  TF_HSM_HOST_DEVICE bool large() const { return fanout > kMaxSmallFanout; }
  TF_HSM_HOST_DEVICE int64_t row_tiles() const {
    return CeilDivide(fanout, hot ? kHotTile : kTileRows);
  }
  TF_HSM_HOST_DEVICE int64_t example_tiles() const {
    return CeilDivide(population(), tile_examples());
  }
  TF_HSM_HOST_DEVICE int64_t tile_examples() const {
    return hot ? kHotTile : kTileExamples;
  }
};

// Sums over the nodes up to and with this one, in the order of their groups.
struct NodeTotals {
  int64_t rows;
  int64_t tiles;         // of large nodes, of kTileRows x kTileExamples
  int64_t logits;        // of large nodes
  int64_t small_passes;  // of the others

  TF_HSM_HOST_DEVICE NodeTotals operator+(const NodeTotals& b) const {
    return {rows + b.rows, tiles + b.tiles, logits + b.logits,
            small_passes + b.small_passes};
  }
};

struct NodeWork {
  int64_t forward_items;
  int64_t forward_slots;   // places of partial results of a pass
  int64_t backward_items;  // of large nodes
  int64_t small_items;     // of the backward at the others
  int64_t merge_slots;     // places of partial gradients of a row
  int64_t merge_rows;      // rows that have more than one

  TF_HSM_HOST_DEVICE NodeWork operator+(const NodeWork& b) const {
    return {forward_items + b.forward_items,   forward_slots + b.forward_slots,
            backward_items + b.backward_items, small_items + b.small_items,
            merge_slots + b.merge_slots,       merge_rows + b.merge_rows};
  }
};

// How nodes are cut. The backward cuts examples, the forward rows.
struct Cuts {
  int64_t row_tiles;      // of an item of the forward
  int64_t example_tiles;  // of an item of the backward at a large node
  int64_t hot_row_tiles;  // the same two of a hot node
  int64_t hot_example_tiles;
  int64_t small_examples;  // of an item at a small node

  // Rows of an item of the forward.
  TF_HSM_HOST_DEVICE int64_t Rows(const DeviceNode& node) const {
    return node.hot ? hot_row_tiles * kHotTile : row_tiles * kTileRows;
  }
  // Examples of an item of the backward.
  TF_HSM_HOST_DEVICE int64_t Examples(const DeviceNode& node) const {
    return !node.large() ? small_examples
           : node.hot    ? hot_example_tiles * kHotTile
                         : example_tiles * kTileExamples;
  }
  TF_HSM_HOST_DEVICE int64_t RowPieces(const DeviceNode& node) const {
    return CeilDivide(node.fanout, Rows(node));
  }
  TF_HSM_HOST_DEVICE int64_t ExamplePieces(const DeviceNode& node) const {
    return CeilDivide(node.population(), Examples(node));
  }
  TF_HSM_HOST_DEVICE bool Merges(const DeviceNode& node) const {
    return ExamplePieces(node) > 1;
  }
};

// What the device counted.
struct Counts {
  int64_t num_rows;
  int64_t num_nodes;
  Cuts cuts;
  NodeWork work;
};

// Some tiles of a large node, or some examples of a small one.
struct Item {
  int32_t node;
  int32_t example;       // the first one, counted in the node
  int64_t row;           // likewise
  int32_t num_examples;  // 0: skip it
  int32_t num_rows;
  int64_t slot;  // of its first partial result, -1: none
};

// Most of everything that labels can ask for, from shapes alone.
struct Bounds {
  int64_t passes = 0;
  int64_t nodes = 0;
  int64_t rows = 0;
  int64_t forward_items = 0;
  int64_t forward_slots = 0;
  int64_t backward_items = 0;
  int64_t small_items = 0;
  int64_t merge_slots = 0;
  int64_t logits = 0;
};

Bounds BoundsOf(const TreeView& tree, const TreeShape& shape, int64_t size,
                int64_t logits);

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
int64_t SortBytes(const TreeView& tree, int64_t size, int64_t nodes);

// Items of hot nodes are cut so that there are about `hot_items` of them; 0: no
// node is hot. Returns an empty string, or a sentence that says what is wrong;
// then there is no plan.
template <typename T>
std::string MakePlan(const Batch<T>& batch, const Bounds& bounds,
                     int64_t hot_items, const DevicePlan& plan,
                     const PlanScratch& scratch, Accumulator<T>* loss,
                     void* stream);

// Lists the items of the forward, of the backward at large nodes, and of that
// at small nodes.
enum class ItemKind { kForward, kBackward, kSmall };
void ListItems(ItemKind kind, const Bounds& bounds, const DevicePlan& plan,
               Item* items, void* stream);

// Fills rows [capacity] with the touched ones, then -1.
void ListRows(const DevicePlan& plan, int64_t* rows, int64_t capacity,
              void* stream);

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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PLAN_PLAN_H_
