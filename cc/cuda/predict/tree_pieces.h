// A tree in pieces of so many rows, on the host.

#ifndef TF_HSM_CC_CUDA_PREDICT_TREE_PIECES_H_
#define TF_HSM_CC_CUDA_PREDICT_TREE_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/cuda/predict/node_logits.h"

namespace tf_hsm {
namespace gpu {

inline RowRange SpanOf(const int64_t* group_offsets, int64_t first_group,
                       int64_t last_group) {
  RowRange span;
  span.first_group = first_group;
  span.num_groups = last_group - first_group;
  span.first_row = group_offsets[first_group];
  span.num_rows = group_offsets[last_group] - span.first_row;
  return span;
}

// The levels from the root on that have at most `rows` rows together.
inline size_t TopLevels(const std::vector<int64_t>& levels,
                        const int64_t* group_offsets, int64_t rows) {
  size_t count = 0;
  while (count + 1 < levels.size() &&
         group_offsets[levels[count + 1]] <= rows) {
    ++count;
  }
  return count;
}

// The groups of a level in pieces of at most `rows` rows, or of one group.
inline std::vector<RowRange> CutLevel(const std::vector<int64_t>& levels,
                                      size_t level,
                                      const int64_t* group_offsets,
                                      int64_t rows) {
  std::vector<RowRange> pieces;
  const int64_t last = levels[level + 1];
  for (int64_t first = levels[level]; first < last;) {
    const int64_t* after =
        std::upper_bound(group_offsets + first + 1, group_offsets + last + 1,
                         group_offsets[first] + rows);
    const int64_t end = std::max<int64_t>(after - group_offsets - 1, first + 1);
    pieces.push_back(SpanOf(group_offsets, first, end));
    first = end;
  }
  return pieces;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_PREDICT_TREE_PIECES_H_
