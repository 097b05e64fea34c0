// The workloads of main.cc, and what a batch of each asks for.

#ifndef TF_HSM_BENCHMARKS_GPU_WORKLOADS_H_
#define TF_HSM_BENCHMARKS_GPU_WORKLOADS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/gpu/tree.h"

namespace tf_hsm {
namespace gpu {

struct Workload {
  std::string name;
  int64_t classes;
  int64_t width;
  int64_t size;
  std::string tree;  // 2-level, flat, binary, huffman, or pinned: also huffman
  bool zipf;
};

inline std::vector<Workload> Workloads(bool tiny) {
  if (tiny) {
    return {{"tiny", 1000, 16, 32, "2-level", true},
            {"tiny", 200, 16, 70, "flat", true},
            {"tiny", 100, 12, 20, "binary", false},
            {"tiny", 100, 12, 20, "huffman", true},
            {"tiny", 100, 12, 20, "pinned", true}};
  }
  return {{"1m-b400", 1000000, 300, 400, "2-level", false},
          {"1m-b400", 1000000, 300, 400, "2-level", true},
          {"10m-b400", 10000000, 300, 400, "2-level", false},
          {"10m-b400", 10000000, 300, 400, "2-level", true},
          {"10m-b40k", 10000000, 300, 40000, "2-level", false},
          {"10m-b40k", 10000000, 300, 40000, "2-level", true},
          {"1bw", 793471, 512, 2560, "2-level", true},
          {"text8", 44371, 512, 2560, "2-level", true},
          {"text8", 44371, 512, 2560, "huffman", true},
          // Last layers of language models.
          {"lm-32k", 32000, 4096, 16384, "flat", true},
          {"lm-128k", 128000, 4096, 4096, "flat", true},
          {"lm-256k", 256000, 1024, 16384, "flat", true},
          {"deep", 1000000, 300, 8192, "binary", false},
          {"deep", 1000000, 300, 8192, "binary", true},
          {"deep", 1000000, 300, 8192, "huffman", true},
          {"deep", 1000000, 300, 8192, "pinned", true}};
}

// The binary Huffman tree of the counts 1 / (c + 1), of two classes or more:
// the two rarest nodes are joined until one is left. Inner nodes come into
// being in the order of their counts, so that two queues do.
inline EvenTree MakeHuffmanTree(int64_t num_classes) {
  std::deque<std::pair<double, int64_t>> leaves, inner;  // count, node
  for (int64_t c = num_classes; c-- > 0;) leaves.push_back({1.0 / (c + 1), c});
  std::vector<std::pair<int64_t, int64_t>> children;  // of inner nodes
  auto take = [&] {
    auto& from = inner.empty() || (!leaves.empty() && leaves[0] < inner[0])
                     ? leaves
                     : inner;
    const auto node = from.front();
    from.pop_front();
    return node;
  };
  while (leaves.size() + inner.size() > 1) {
    const auto a = take(), b = take();
    inner.push_back({a.first + b.first,
                     num_classes + static_cast<int64_t>(children.size())});
    children.push_back({a.second, b.second});
  }
  EvenTree tree;
  tree.class_rows.resize(num_classes);
  tree.class_ranks.resize(num_classes);
  std::vector<int64_t> nodes;  // of rows
  std::deque<int64_t> waiting = {num_classes +
                                 static_cast<int64_t>(children.size()) - 1};
  while (!waiting.empty()) {
    const auto [a, b] = children[waiting.front() - num_classes];
    waiting.pop_front();
    for (int64_t child : {a, b}) {
      const int64_t row = static_cast<int64_t>(nodes.size());
      tree.row_groups.push_back(tree.group_offsets.size() - 1);
      nodes.push_back(child);
      if (child < num_classes) {
        tree.class_rows[child] = row;
      } else {
        tree.group_parents.push_back(row);
        waiting.push_back(child);
      }
    }
    tree.group_offsets.push_back(nodes.size());
  }
  int64_t rank = 0;
  std::vector<int64_t> stack = {nodes[1], nodes[0]};
  while (!stack.empty()) {
    const int64_t node = stack.back();
    stack.pop_back();
    if (node < num_classes) {
      tree.class_ranks[node] = rank++;
    } else {
      stack.push_back(children[node - num_classes].second);
      stack.push_back(children[node - num_classes].first);
    }
  }
  return tree;
}

inline EvenTree MakeTree(const Workload& load) {
  if (load.tree == "huffman" || load.tree == "pinned") {
    return MakeHuffmanTree(load.classes);
  }
  if (load.tree == "flat") return MakeEvenTree(load.classes, {load.classes});
  return MakeEvenTree(load.classes, load.tree == "binary"
                                        ? std::vector<int64_t>(64, 2)
                                        : TwoLevels(load.classes));
}

// Logits and touched rows of the weights of each level of a batch.
struct LevelCounts {
  std::vector<double> logits, rows;
};

inline LevelCounts CountLevels(const TreeView& tree,
                               const std::vector<int64_t>& labels) {
  LevelCounts counts;
  std::vector<std::set<int64_t>> groups;
  std::vector<int64_t> path;
  for (int64_t label : labels) {
    path.clear();
    for (int64_t row = tree.class_rows[label]; row >= 0;
         row = tree.group_parents[path.back()]) {
      path.push_back(tree.row_groups[row]);
    }
    std::reverse(path.begin(), path.end());
    if (path.size() > groups.size()) {
      groups.resize(path.size());
      counts.logits.resize(path.size());
      counts.rows.resize(path.size());
    }
    for (size_t level = 0; level < path.size(); ++level) {
      const int64_t g = path[level];
      const double rows = tree.weight_rows_of(tree.group_offsets[g + 1] -
                                              tree.group_offsets[g]);
      counts.logits[level] += rows;
      if (groups[level].insert(g).second) counts.rows[level] += rows;
    }
  }
  return counts;
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_GPU_WORKLOADS_H_
