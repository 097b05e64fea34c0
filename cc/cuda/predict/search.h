// A search for the best classes of many examples: its memory, and the steps
// that select. top_k.cu has the others.

#ifndef TF_HSM_CC_CUDA_PREDICT_SEARCH_H_
#define TF_HSM_CC_CUDA_PREDICT_SEARCH_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/predict/places.h"

namespace tf_hsm::gpu {

// Which classes a search may find, by a sorted list of their ranks: the classes
// below a row are an interval of ranks, as on the CPU
// (cc/core/api/class_mask.h). Walks down to the first and to the last of them
// find its ends: O(depth) loads for a node, one for a class.

// The rank of the first class (`to_last`: 0) or of the last (1) at or below
// what TreeView::row_below has as `below`; -1 if the arrays have none there.
TF_HSM_DEVICE int64_t RankBelow(const TreeView& tree, int64_t below,
                                int to_last) {
  int64_t group = -1;
  while (below > group) {
    if (below >= tree.num_groups) return -1;
    group = below;
    const int64_t row = tree.group_offsets[group + to_last] - to_last;
    if (row < 0 || row >= tree.num_rows) return -1;
    below = tree.row_below[row];
  }
  return below < 0 && ~below < tree.num_classes ? tree.class_ranks[~below] : -1;
}

// Whether an example may find a class at or below `below`.
TF_HSM_DEVICE bool IsAllowed(const TreeView& tree, const AllowedRanks& allowed,
                             int64_t example, int64_t below) {
  if (allowed.splits == nullptr) return true;
  const int64_t* splits =
      allowed.splits + (allowed.num_lists == 1 ? 0 : example);
  const int64_t first = RankBelow(tree, below, 0), end = splits[1];
  int64_t low = splits[0], high = end;  // the first rank that is not below
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (allowed.ranks[middle] < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < end && allowed.ranks[low] <= RankBelow(tree, below, 1);
}

// Device memory of a search.
struct SearchBuffers {
  TreeView tree;
  Places places;
  const float* root_log_probs = nullptr;  // of the batch
  bool has_sigmoids = false;              // of the batch
  const float* wanted = nullptr;          // WantedClasses::bounds
  AllowedRanks allowed;
  int64_t size = 0;     // examples
  int64_t columns = 0;  // of logits and lists
  int64_t parts = 0;
  int k = 0;
  float* z = nullptr;          // [size, columns], logits of a piece
  float* bounds = nullptr;     // [groups by place, size], see IsOpened
  float* least = nullptr;      // [size], of the k-th class, or what is wanted
  float* opens = nullptr;      // [size], what the first sweep opens from
  int* counts = nullptr;       // [size], lengths of the lists
  uint64_t* list = nullptr;    // [size, columns], keys of classes
  uint64_t* best = nullptr;    // [size, k], sorted keys
  uint64_t* picked = nullptr;  // [size, parts, MostPicked], sorted keys
};

// Whether a node with this log-probability is never opened.
TF_HSM_DEVICE bool IsUnwanted(const SearchBuffers& in, float log_prob) {
  return in.wanted != nullptr && !(log_prob > -static_cast<float>(INFINITY));
}

// Only the roots are reached, and nothing found.
void BeginSearch(const Launcher& launcher, const SearchBuffers& search);

// Takes the classes of the lists into the k best, and empties the lists.
void MergeClasses(const Launcher& launcher, const SearchBuffers& search);

// Sets `opens` so that each example opens its best `wanted` nodes, at most
// kMaxTopK, of `num_groups` groups, the first of them at `first_place`, if they
// could matter.
void PickNodes(const Launcher& launcher, const SearchBuffers& search,
               int64_t first_place, int64_t num_groups, int wanted);

// log_probs and classes: [size, k].
void WriteBest(const Launcher& launcher, const SearchBuffers& search,
               float* log_probs, int64_t* classes);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_SEARCH_H_
