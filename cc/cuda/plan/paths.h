// The first half of a plan: from labels to touched groups. Each function is
// what one thread does for one number; plan.cu sorts and scans in between.
//
// The path of a label goes from the leaf up to a root, on arrays that may be
// wrong: every value of the forest is checked before it is an index.

#ifndef TF_HSM_CC_CUDA_PLAN_PATHS_H_
#define TF_HSM_CC_CUDA_PLAN_PATHS_H_

#include <cmath>
#include <cstdint>

#include "cc/core/plan/plan.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/device.h"
#include "cc/cuda/plan/plan.h"

namespace tf_hsm::gpu {

// What the labels' kernels read.
struct Labels {
  TreeView tree;
  TreeShape shape;
  const void* labels;
  bool int64;
  int64_t size;
  int num_ignored;
  int64_t ignored[kMaxIgnored];

  TF_HSM_DEVICE int64_t At(int64_t example) const {
    return int64 ? static_cast<const int64_t*>(labels)[example]
                 : static_cast<const int32_t*>(labels)[example];
  }
  TF_HSM_DEVICE bool Ignored(int64_t label) const {
    for (int i = 0; i < num_ignored; ++i) {
      if (ignored[i] == label) return true;
    }
    return false;
  }
};

template <typename T>
Labels LabelsOf(const Batch<T>& batch) {
  Labels labels = {batch.tree,
                   batch.shape,
                   batch.labels,
                   batch.labels_are_int64,
                   batch.size,
                   batch.num_ignored,
                   {}};
  for (int i = 0; i < batch.num_ignored; ++i) {
    labels.ignored[i] = batch.ignored[i];
  }
  return labels;
}

// The group of a row; -1 if the arrays around it are wrong, or if the group is
// larger than the shape of the tree says.
TF_HSM_DEVICE int64_t GroupOfRow(const TreeView& tree, const TreeShape& shape,
                                 int64_t row) {
  if (row < 0 || row >= tree.num_rows) return -1;
  const int64_t group = tree.row_groups[row];
  if (group < 0 || group >= tree.num_groups) return -1;
  const int64_t first = tree.group_offsets[group];
  const int64_t last = tree.group_offsets[group + 1];
  if (first < 0 || first > row || last <= row || last > tree.num_rows) {
    return -1;
  }
  if (!tree.allows(group, first, last)) return -1;
  const int64_t fanout = last - first;
  if (fanout > shape.max_fanout) return -1;
  if (fanout <= kMaxSmallFanout && fanout > shape.small_fanout) return -1;
  const int64_t parent = tree.group_parents[group];
  return parent >= -1 && parent < first ? group : -1;
}

// The groups on the path of a leaf; 0 if the path is wrong.
TF_HSM_DEVICE int DepthOf(const TreeView& tree, const TreeShape& shape,
                          int64_t row) {
  int64_t large = 0;
  for (int depth = 1; depth <= shape.depth; ++depth) {
    const int64_t group = GroupOfRow(tree, shape, row);
    if (group < 0) return 0;
    const int64_t fanout =
        tree.group_offsets[group + 1] - tree.group_offsets[group];
    if (fanout > kMaxSmallFanout && ++large > shape.large_depth) return 0;
    row = tree.group_parents[group];
    if (row < 0) return depth;
  }
  return 0;
}

// The groups on the path of an example's label; 0 if it has none.
TF_HSM_DEVICE int DepthOfExample(const Labels& labels, int64_t i) {
  const TreeView& tree = labels.tree;
  const int64_t label = labels.At(i);
  if (labels.Ignored(label) || label < 0 || label >= tree.num_classes) return 0;
  const int64_t rank = tree.class_ranks[label];
  if (rank < 0 || rank >= tree.num_classes) return 0;
  return DepthOf(tree, labels.shape, tree.class_rows[label]);
}

// Losses [size], of float or double.
struct Losses {
  void* values;
  bool float64;

  TF_HSM_DEVICE void Set(int64_t example, float value) const {
    if (float64) {
      static_cast<double*>(values)[example] = value;
    } else {
      static_cast<float*>(values)[example] = value;
    }
  }
};

// What all that makes a plan gets.
struct PlanTask {
  Labels labels;
  Losses losses;
  Bounds bounds;
  DevicePlan plan;
  PlanScratch scratch;
  Item* forward_items;  // null: they are not listed
};

// Keys: the rank of the leaf; num_classes, which is last, for those without a
// path, whose loss this writes.
TF_HSM_DEVICE void RankExample(const PlanTask& task, int64_t i) {
  const Labels& labels = task.labels;
  const TreeView& tree = labels.tree;
  const int64_t label = labels.At(i);
  const int depth = DepthOfExample(labels, i);
  const int64_t rank = depth > 0 ? tree.class_ranks[label] : tree.num_classes;
  if (depth == 0) task.losses.Set(i, labels.Ignored(label) ? 0.0f : NAN);
  task.scratch.depths[i] = depth;
  task.scratch.keys[i] = static_cast<uint64_t>(rank);
  task.scratch.values[i] = static_cast<int32_t>(i);
}

TF_HSM_DEVICE void ClimbPath(const PlanTask& task, int64_t position) {
  const TreeView& tree = task.labels.tree;
  const DevicePlan& plan = task.plan;
  const int32_t example = plan.order[position];
  const int depth = task.scratch.depths[example];
  plan.depths[position] = depth;
  int64_t row = depth > 0 ? tree.class_rows[task.labels.At(example)] : -1;
  for (int64_t level = task.labels.shape.depth - 1; level >= 0; --level) {
    plan.path_rows[plan.Pass(level, position)] = level < depth ? row : -1;
    if (level < depth) row = tree.group_parents[tree.row_groups[row]];
  }
}

// Whether the example at `position` passes, at `level`, the group with the rows
// [first, last).
TF_HSM_DEVICE bool Passes(const DevicePlan& plan, int64_t level,
                          int64_t position, int64_t first, int64_t last) {
  const int64_t row = plan.path_rows[plan.Pass(level, position)];
  return row >= first && row < last;
}

// The nodes that begin at an example.
TF_HSM_DEVICE void CountOpened(const PlanTask& task, int64_t position) {
  const TreeView& tree = task.labels.tree;
  const DevicePlan& plan = task.plan;
  const int depth = plan.depths[position];
  // The levels that are shared with the example before come first.
  int low = 0, high = position == 0 ? 0 : depth;
  while (low < high) {
    const int middle = (low + high) / 2;
    const int64_t row = plan.path_rows[plan.Pass(middle, position)];
    const int64_t group = tree.row_groups[row];
    if (Passes(plan, middle, position - 1, tree.group_offsets[group],
               tree.group_offsets[group + 1])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  task.scratch.opened[position] = depth - low;
}

// Past the last example from `begin` on that passes the group.
TF_HSM_DEVICE int64_t EndOf(const DevicePlan& plan, int64_t level,
                            int64_t begin, int64_t first, int64_t last) {
  int64_t step = 1;
  while (begin + step < plan.size &&
         Passes(plan, level, begin + step, first, last)) {
    step *= 2;
  }
  int64_t low = begin + step / 2;  // passes
  int64_t high = Smaller(begin + step, plan.size);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (Passes(plan, level, middle, first, last)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return high;
}

// Node t, counted as the examples open them, and its key, the group.
TF_HSM_DEVICE void OpenNode(const PlanTask& task, int64_t t) {
  const TreeView& tree = task.labels.tree;
  const DevicePlan& plan = task.plan;
  const int64_t* const opened_sums = task.scratch.opened_sums;
  task.scratch.values[t] = static_cast<int32_t>(t);
  task.scratch.keys[t] = static_cast<uint64_t>(tree.num_groups);
  if (t >= opened_sums[plan.size - 1]) return;
  int64_t low = 0, high = plan.size;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (opened_sums[middle] > t) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const int64_t position = low;
  // Counted from the deepest level up.
  const int64_t level = plan.depths[position] - (opened_sums[position] - t);
  const int64_t row = plan.path_rows[plan.Pass(level, position)];
  DeviceNode node;
  node.group = tree.row_groups[row];
  node.first_row = tree.group_offsets[node.group];
  const int64_t last = tree.group_offsets[node.group + 1];
  node.fanout = last - node.first_row;
  node.logits_offset = 0;
  node.kept_examples = 0;
  node.hot = false;
  node.pinned = tree.pinned;
  node.large = node.fanout > kMaxSmallFanout;
  node.level = static_cast<int32_t>(level);
  node.begin = static_cast<int32_t>(position);
  node.end =
      static_cast<int32_t>(EndOf(plan, level, position, node.first_row, last));
  task.scratch.unsorted[t] = node;
  task.scratch.keys[t] = static_cast<uint64_t>(node.group);
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PLAN_PATHS_H_
