// What the kernels of predictions read: examples, and rows of weights.
// Those of a pinned tree (tree_view.h) have one for each two rows of the
// groups.

#ifndef TF_HSM_CC_CORE_GROUPS_GROUP_ROWS_H_
#define TF_HSM_CC_CORE_GROUPS_GROUP_ROWS_H_

#include <cstdint>

#include "cc/core/base/quantized_rows.h"
#include "cc/core/base/types.h"

namespace tf_hsm {

// Some examples at the rows of some consecutive groups.
template <typename T>
struct GroupRows {
  using A = Accumulator<T>;
  const T* weights = nullptr;  // of the first row
  const T* biases = nullptr;   // likewise, or null
  int64_t width = 0;
  const A* x = nullptr;  // [num_examples, Padded(width)]
  int64_t num_examples = 0;
  const int64_t* group_offsets = nullptr;  // [num_groups + 1]
  int64_t num_groups = 0;
  A logit_soft_cap = 0;  // see Problem
  A scale = 1;           // of the logits, once they are capped
  // Whether each row has a sigmoid of its own, as in a label tree, where the
  // rows of a group otherwise share a softmax.
  bool has_sigmoids = false;
  bool pinned = false;
  // In place of weights, for float32 alone; or none.
  QuantizedRows quantized;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_GROUPS_GROUP_ROWS_H_
