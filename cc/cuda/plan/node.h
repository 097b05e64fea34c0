// The groups that a batch touches, and how they are cut into pieces of work.

#ifndef TF_HSM_CC_CUDA_PLAN_NODE_H_
#define TF_HSM_CC_CUDA_PLAN_NODE_H_

#include <cstdint>

#include "cc/core/plan/plan.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

// Arithmetic chose these numbers; docs/gpu.md says what was measured.
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

// Some tiles of a large node, or some examples of a small one.
struct Item {
  int32_t node;
  int32_t example;       // the first one, counted in the node
  int64_t row;           // likewise
  int32_t num_examples;  // 0: skip it
  int32_t num_rows;
  int64_t slot;  // of its first partial result, -1: none
};

// Numbers between the kept logits of two examples: whole sectors of 32 bytes,
// which neighbouring lanes fill together.
TF_HSM_HOST_DEVICE int64_t LogitsStride(int64_t fanout) {
  return RoundUp(fanout, 8);
}

// A touched group. The nodes of a state stand in the order of their groups.
struct DeviceNode {
  int64_t group;
  int64_t first_row;
  int64_t fanout;
  int64_t logits_offset;  // of the kept logits [kept_examples, logits_stride]
  int32_t level;
  int32_t begin;
  int32_t end;
  int32_t kept_examples;  // the first ones, whose logits are kept
  bool hot;               // whether the tiles of these are hot
  bool pinned;            // whether the tree is: see tree_view.h
  bool large;             // see plan.h

  // Those of the parameters.
  TF_HSM_HOST_DEVICE int64_t first_weight_row() const {
    return pinned ? group : first_row;
  }
  TF_HSM_HOST_DEVICE int64_t num_weight_rows() const {
    return pinned ? 1 : fanout;
  }
  TF_HSM_HOST_DEVICE int64_t logits_stride() const {
    return LogitsStride(fanout);
  }
  TF_HSM_HOST_DEVICE int64_t population() const { return end - begin; }
  TF_HSM_HOST_DEVICE bool Keeps(int64_t example) const {
    return example < kept_examples;
  }
  TF_HSM_HOST_DEVICE bool IsHot(const Item& item) const {
    return hot && Keeps(item.example);
  }
  // The number of examples in the hot part, which comes first, or in the rest.
  TF_HSM_HOST_DEVICE int64_t Examples(bool hot_part) const {
    const int64_t of_hot = hot ? kept_examples : 0;
    return hot_part ? of_hot : population() - of_hot;
  }
};

// Rows and examples of a tile.
TF_HSM_HOST_DEVICE int64_t TileRows(bool hot) {
  return hot ? kHotTile : kTileRows;
}
TF_HSM_HOST_DEVICE int64_t TileExamples(bool hot) {
  return hot ? kHotTile : kTileExamples;
}

// Sums over the nodes up to and with this one, in the order of their groups.
// Nodes that would be hot if there were room for all their logits count apart.
struct NodeTotals {
  int64_t rows;    // of the parameters
  int64_t tiles;   // of large nodes
  int64_t logits;  // likewise
  int64_t hot_tiles;
  int64_t hot_logits;
  int64_t small_passes;

  TF_HSM_HOST_DEVICE NodeTotals operator+(const NodeTotals& b) const {
    return {rows + b.rows,
            tiles + b.tiles,
            logits + b.logits,
            hot_tiles + b.hot_tiles,
            hot_logits + b.hot_logits,
            small_passes + b.small_passes};
  }
};

struct NodeWork {
  int64_t forward_items;
  int64_t forward_slots;   // places of partial results of a pass
  int64_t backward_items;  // of large nodes but for their hot parts
  int64_t hot_backward_items;
  int64_t small_items;  // of the backward at the others
  int64_t merge_slots;  // places of partial gradients of a row
  int64_t merge_rows;   // rows that have more than one

  TF_HSM_HOST_DEVICE NodeWork operator+(const NodeWork& b) const {
    return {forward_items + b.forward_items,
            forward_slots + b.forward_slots,
            backward_items + b.backward_items,
            hot_backward_items + b.hot_backward_items,
            small_items + b.small_items,
            merge_slots + b.merge_slots,
            merge_rows + b.merge_rows};
  }
};

// Where the partial results of a pass are, counted from those of its node.
struct PassSlots {
  int64_t first;
  int64_t stride;
  int64_t pieces;
};

// How nodes are cut. The backward cuts examples, the forward rows; pieces of a
// node are of about the same size.
struct Cuts {
  int64_t row_tiles;      // most of an item of the forward
  int64_t example_tiles;  // of an item of the backward at a large node
  int64_t hot_row_tiles;  // the same two of a hot part
  int64_t hot_example_tiles;
  int64_t small_examples;    // of an item at a small node
  int64_t forward_examples;  // of an item of the forward that is not hot

  // Examples of an item of the forward.
  TF_HSM_HOST_DEVICE int64_t ForwardExamples(bool hot) const {
    return hot ? kHotTile : forward_examples;
  }
  // Rows of an item of the forward.
  TF_HSM_HOST_DEVICE int64_t Rows(const DeviceNode& node, bool hot) const {
    return Piece(CeilDivide(node.fanout, TileRows(hot)),
                 hot ? hot_row_tiles : row_tiles) *
           TileRows(hot);
  }
  TF_HSM_HOST_DEVICE int64_t RowPieces(const DeviceNode& node, bool hot) const {
    return CeilDivide(node.fanout, Rows(node, hot));
  }
  TF_HSM_HOST_DEVICE int64_t ForwardItems(const DeviceNode& node,
                                          bool hot) const {
    return RowPieces(node, hot) *
           CeilDivide(node.Examples(hot), ForwardExamples(hot));
  }
  TF_HSM_HOST_DEVICE int64_t ForwardSlots(const DeviceNode& node,
                                          bool hot) const {
    return RowPieces(node, hot) * node.Examples(hot);
  }
  TF_HSM_HOST_DEVICE PassSlots SlotsOf(const DeviceNode& node,
                                       int64_t example) const {
    const int64_t of_hot = node.Examples(true);
    const bool hot = example < of_hot;
    return {hot ? example : ForwardSlots(node, true) + example - of_hot,
            node.Examples(hot), RowPieces(node, hot)};
  }

  // Examples of an item of the backward; 0 where the part has none.
  TF_HSM_HOST_DEVICE int64_t Examples(const DeviceNode& node, bool hot) const {
    const int64_t all = node.Examples(hot);
    if (all == 0) return 0;
    if (!node.large) return Piece(all, small_examples);
    return Piece(CeilDivide(all, TileExamples(hot)),
                 hot ? hot_example_tiles : example_tiles) *
           TileExamples(hot);
  }
  TF_HSM_HOST_DEVICE int64_t ExamplePieces(const DeviceNode& node,
                                           bool hot) const {
    const int64_t examples = Examples(node, hot);
    return examples == 0 ? 0 : CeilDivide(node.Examples(hot), examples);
  }
  TF_HSM_HOST_DEVICE int64_t ExamplePieces(const DeviceNode& node) const {
    return ExamplePieces(node, true) + ExamplePieces(node, false);
  }
  TF_HSM_HOST_DEVICE int64_t BackwardItems(const DeviceNode& node,
                                           bool hot) const {
    return CeilDivide(node.fanout, TileRows(hot)) * ExamplePieces(node, hot);
  }
  TF_HSM_HOST_DEVICE bool Merges(const DeviceNode& node) const {
    return ExamplePieces(node) > 1;
  }

  // That of one node.
  TF_HSM_HOST_DEVICE NodeWork WorkOf(const DeviceNode& node) const {
    NodeWork work = {};
    if (node.large) {
      work.forward_items = ForwardItems(node, true) + ForwardItems(node, false);
      work.forward_slots = ForwardSlots(node, true) + ForwardSlots(node, false);
      work.backward_items = BackwardItems(node, false);
      work.hot_backward_items = BackwardItems(node, true);
    } else {
      work.small_items = ExamplePieces(node);
    }
    if (Merges(node)) {
      work.merge_slots = node.num_weight_rows() * ExamplePieces(node);
      work.merge_rows = node.num_weight_rows();
    }
    return work;
  }

 private:
  // Cuts `count` into the fewest pieces of at most `most`; returns their size.
  TF_HSM_HOST_DEVICE static int64_t Piece(int64_t count, int64_t most) {
    return CeilDivide(count, CeilDivide(count, most));
  }
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_NODE_H_
