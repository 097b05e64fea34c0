#include "benchmarks/gpu/tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tf_hsm {

TreeView EvenTree::view() const {
  TreeView tree;
  tree.num_classes = static_cast<int64_t>(class_rows.size());
  tree.num_rows = group_offsets.back();
  tree.num_groups = static_cast<int64_t>(group_parents.size());
  tree.group_offsets = group_offsets.data();
  tree.group_parents = group_parents.data();
  tree.class_rows = class_rows.data();
  tree.row_groups = row_groups.data();
  tree.class_ranks = class_ranks.data();
  return tree;
}

EvenTree MakeEvenTree(int64_t num_classes,
                      const std::vector<int64_t>& branching) {
  // An inner node, by the classes below it.
  struct Run {
    int64_t start;
    int64_t size;
  };
  EvenTree tree;
  tree.class_rows.resize(num_classes);
  std::vector<Run> level = {{0, num_classes}};
  for (int64_t fanout : branching) {
    if (level.empty()) break;
    std::vector<Run> below;
    for (const Run& run : level) {
      const int64_t group = static_cast<int64_t>(tree.group_offsets.size()) - 1;
      const int64_t count = std::min(fanout, run.size);
      int64_t start = run.start;
      for (int64_t child = 0; child < count; ++child) {
        const int64_t row = static_cast<int64_t>(tree.row_groups.size());
        const int64_t size =
            run.size / count + (child < run.size % count ? 1 : 0);
        tree.row_groups.push_back(group);
        if (size == 1) {
          tree.class_rows[start] = row;
        } else {
          tree.group_parents.push_back(row);
          below.push_back({start, size});
        }
        start += size;
      }
      tree.group_offsets.push_back(tree.row_groups.size());
    }
    level = std::move(below);
  }
  tree.class_ranks.resize(num_classes);
  std::iota(tree.class_ranks.begin(), tree.class_ranks.end(), 0);
  return tree;
}

std::vector<int64_t> TwoLevels(int64_t num_classes) {
  const int64_t groups =
      std::llround(std::sqrt(static_cast<double>(num_classes)));
  return {groups, (num_classes + groups - 1) / groups};
}

Labels::Labels(int64_t num_classes, bool zipf) : num_classes_(num_classes) {
  if (!zipf) return;
  double sum = 0;
  for (int64_t c = 0; c < num_classes; ++c) {
    sum += 1.0 / static_cast<double>(c + 1);
    cumulative_.push_back(sum);
  }
}

std::vector<int64_t> Labels::Draw(int64_t batch, uint64_t seed) const {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<int64_t> labels(batch);
  for (int64_t& label : labels) {
    const double drawn = uniform(rng);
    label = cumulative_.empty()
                ? static_cast<int64_t>(drawn * num_classes_)
                : std::upper_bound(cumulative_.begin(), cumulative_.end(),
                                   drawn * cumulative_.back()) -
                      cumulative_.begin();
    label = std::min(label, num_classes_ - 1);
  }
  return labels;
}

}  // namespace tf_hsm
