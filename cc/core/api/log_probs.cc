#include "cc/core/api/log_probs.h"

#include <algorithm>
#include <cmath>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Rows of a block of groups, unless one group alone has more.
constexpr int64_t kBlockRows = 64;

// Log-probabilities of one work item, unless one example alone has more.
constexpr int64_t kMaxScores = 1 << 20;

// Consecutive groups of one level, and some examples.
struct Block {
  int64_t first_group;
  int64_t num_groups;
  int64_t begin;
  int64_t end;
};

// Calls work(block) for every group of a level and every example.
void ForBlocks(const TreeView& tree, int64_t first_group, int64_t end_group,
               int64_t num_examples, const Parallel& parallel,
               const std::function<void(const Block&)>& work) {
  std::vector<Block> blocks;
  for (int64_t g = first_group; g < end_group;) {
    const int64_t first = g;
    const int64_t row = tree.group_offsets[g++];
    while (g < end_group && tree.group_offsets[g + 1] - row <= kBlockRows) ++g;
    const int64_t rows = tree.group_offsets[g] - row;
    const int64_t most =
        std::clamp<int64_t>(kMaxScores / rows, 1, kMaxItemExamples);
    for (int64_t begin = 0; begin < num_examples; begin += most) {
      blocks.push_back(
          {first, g - first, begin, std::min(begin + most, num_examples)});
    }
  }
  parallel(blocks.size(), [&](int64_t i) { work(blocks[i]); });
}

template <typename A>
int64_t Stride(const TreeView& tree, const AllLogProbs<A>& all) {
  return all.of_nodes ? tree.num_rows : tree.num_classes;
}

// Multiplies dz, of the rows of a tree of one group, by the slopes of the soft
// cap. A log-probability is a logit less the same number for all rows, which
// the logit of the first row tells.
template <typename T>
void MultiplyBySlopes(const GroupScorer<T>& scorer,
                      const AllLogProbs<const Accumulator<T>>& forward,
                      Accumulator<T>* dz) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  const A cap = scorer.logit_soft_cap;
  scorer.parallel(scorer.num_examples, [&](int64_t i) {
    const A* values = forward.values + i * Stride(tree, forward);
    auto value = [&](int64_t row) {
      return values[forward.of_nodes ? row : ~tree.row_below[row]];
    };
    A sum = scorer.biases == nullptr ? A(0) : ToAccumulator(scorer.biases[0]);
    const A* x = scorer.x + i * Padded(scorer.width);
    for (int64_t d = 0; d < scorer.width; ++d) {
      sum += ToAccumulator(scorer.weights[d]) * x[d];
    }
    const A gap = cap * std::tanh(sum / cap) - value(0);
    for (int64_t row = 0; row < tree.num_rows; ++row) {
      const A share = (value(row) + gap) / cap;
      const A slope = (1 - share) * (1 + share);
      // Below a root of minus infinity, the logits are not known.
      dz[i * tree.num_rows + row] *= slope > 0 ? slope : 0;
    }
  });
}

}  // namespace

std::string FindLevels(const TreeView& tree, std::vector<int64_t>* levels) {
  levels->assign(1, 0);
  if (tree.group_offsets[0] != 0) {
    return OutOfRange("group_offsets", 0, tree.group_offsets[0], 0, 1);
  }
  std::vector<bool> is_there(tree.num_classes);
  int64_t next_group = 0;  // the first that is below no row so far
  int64_t next_root = 0;
  int64_t level_end = tree.num_groups;  // the first group below this level
  for (int64_t group = 0; group < tree.num_groups; ++group) {
    if (group == level_end) {
      levels->push_back(group);
      level_end = tree.num_groups;
    }
    if (group == next_group) {
      if (next_root == tree.num_roots || tree.root_group(next_root) != group) {
        return "row_below: no row has group " + std::to_string(group) +
               " below it";
      }
      ++next_root;
      ++next_group;
    }
    GroupSpan span;
    const std::string error = GroupAt(tree, group, &span);
    if (!error.empty()) return error;
    for (int64_t row = span.first_row; row < span.first_row + span.fanout;
         ++row) {
      const int64_t below = tree.row_below[row];
      if (!IsBelow(tree, group, below)) return NotBelow(tree, group);
      if (below >= 0 && below != next_group) {
        return At("row_below", row, below) +
               ", but groups stand in the order of their parent rows: it "
               "must be " +
               std::to_string(next_group);
      }
      if (below >= 0 && next_root < tree.num_roots &&
          below == tree.root_group(next_root)) {
        return At("row_below", row, below) + ", but that group is a root's: " +
               At("root_groups", next_root, below);
      }
      if (below >= 0) {
        level_end = std::min(level_end, below);
        ++next_group;
      } else if (is_there[~below]) {
        return At("row_below", row, below) + " is a second leaf of class " +
               std::to_string(~below);
      } else {
        is_there[~below] = true;
      }
    }
  }
  const int64_t last = tree.group_offsets[tree.num_groups];
  if (last != tree.num_rows) {
    return At("group_offsets", tree.num_groups, last) +
           " is not the number of rows, " + std::to_string(tree.num_rows);
  }
  levels->push_back(tree.num_groups);
  return "";
}

template <typename T>
void LogProbs(const GroupScorer<T>& scorer, const std::vector<int64_t>& levels,
              const AllLogProbs<Accumulator<T>>& out) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  const int64_t stride = Stride(tree, out);
  for (int64_t i = 0; i < scorer.num_examples; ++i) {
    for (int64_t root = 0; root < tree.num_roots; ++root) {
      out.groups[i * tree.num_groups + tree.root_group(root)] =
          scorer.Start(i, root);
    }
  }
  auto score = [&](const Block& block) {
    static thread_local std::vector<A> scores;
    const int64_t* offsets = tree.group_offsets + block.first_group;
    const int64_t first_row = offsets[0];
    const int64_t rows = offsets[block.num_groups] - first_row;
    const int64_t examples = block.end - block.begin;
    scores.resize(std::max<size_t>(scores.size(), examples * rows));
    scorer.table->log_softmax(
        scorer.Rows(first_row, offsets, block.num_groups,
                    scorer.x + block.begin * Padded(scorer.width), examples),
        scores.data(), rows);
    for (int64_t m = 0; m < examples; ++m) {
      const A* z = scores.data() + m * rows - first_row;
      A* values = out.values + (block.begin + m) * stride;
      A* groups = out.groups + (block.begin + m) * tree.num_groups;
      for (int64_t g = 0; g < block.num_groups; ++g) {
        const A above = groups[block.first_group + g];
        for (int64_t row = offsets[g]; row < offsets[g + 1]; ++row) {
          const int64_t below = tree.row_below[row];
          const A value = above + z[row];
          if (below >= 0) groups[below] = value;
          if (out.of_nodes) {
            values[row] = value;
          } else if (below < 0) {
            values[~below] = value;
          }
        }
      }
    }
  };
  for (size_t level = 0; level + 1 < levels.size(); ++level) {
    ForBlocks(tree, levels[level], levels[level + 1], scorer.num_examples,
              scorer.parallel, score);
  }
}

template <typename T>
void LogProbsGrad(const GroupScorer<T>& scorer,
                  const std::vector<int64_t>& levels,
                  const AllLogProbs<const Accumulator<T>>& forward,
                  const Accumulator<T>* grads, Accumulator<T>* dz,
                  Accumulator<T>* dx, Accumulator<T>* root_grads) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  const int64_t examples = scorer.num_examples, width = scorer.width;
  const int64_t rows = tree.num_weight_rows(), stride = Stride(tree, forward);
  std::vector<A> group_sums(examples * tree.num_groups);
  auto make_dz = [&](const Block& block) {
    static thread_local std::vector<A> probs;
    for (int64_t m = block.begin; m < block.end; ++m) {
      A* sums = group_sums.data() + m * tree.num_groups;
      const A* groups = forward.groups + m * tree.num_groups;
      for (int64_t g = block.first_group;
           g < block.first_group + block.num_groups; ++g) {
        const int64_t first = tree.group_offsets[g];
        const int64_t fanout = tree.group_offsets[g + 1] - first;
        probs.resize(std::max<size_t>(probs.size(), fanout));
        // Below what has no probability at all, none of the rows has any.
        const A above = std::isinf(groups[g]) ? A(0) : groups[g];
        A of_pair[2];
        A* s = tree.pinned ? of_pair : dz + m * rows + first;
        A sum = 0;
        for (int64_t k = 0; k < fanout; ++k) {
          const int64_t row = first + k, below = tree.row_below[row];
          const int64_t at = forward.of_nodes ? row : ~below;
          const bool has_value = forward.of_nodes || below < 0;
          s[k] = (has_value ? grads[m * stride + at] : 0) +
                 (below >= 0 ? sums[below] : 0);
          sum += s[k];
          probs[k] =
              (below >= 0 ? groups[below] : forward.values[m * stride + at]) -
              above;
        }
        sums[g] = sum;
        scorer.table->exps(probs.data(), fanout, probs.data());
        for (int64_t k = 0; k < fanout; ++k) s[k] -= sum * probs[k];
        if (tree.pinned) dz[m * rows + g] = s[0];
      }
    }
  };
  for (size_t level = levels.size() - 1; level-- > 0;) {
    ForBlocks(tree, levels[level], levels[level + 1], examples, scorer.parallel,
              make_dz);
  }
  if (scorer.logit_soft_cap > 0) MultiplyBySlopes(scorer, forward, dz);
  for (int64_t i = 0; root_grads != nullptr && i < examples; ++i) {
    for (int64_t root = 0; root < tree.num_roots; ++root) {
      *root_grads++ = group_sums[i * tree.num_groups + tree.root_group(root)];
    }
  }

  // dx of some examples over some of the rows, then the sum of those parts. The
  // parts do not depend on the number of threads.
  constexpr int64_t kParts = 8;
  const int64_t padded = Padded(width);
  const int64_t slices = (examples + kMaxItemExamples - 1) / kMaxItemExamples;
  const int64_t parts =
      std::clamp<int64_t>(kParts / std::max<int64_t>(slices, 1), 1, kParts);
  const int64_t part_rows = (rows + parts - 1) / parts;
  std::vector<A> sums(parts * examples * padded);
  scorer.parallel(slices * parts, [&](int64_t item) {
    const int64_t part = item % parts;
    const int64_t begin = item / parts * kMaxItemExamples;
    const int64_t count = std::min(kMaxItemExamples, examples - begin);
    const int64_t end_row = std::min((part + 1) * part_rows, rows);
    for (int64_t row = part * part_rows; row < end_row; row += kBlockRows) {
      scorer.table->add_expectations(
          scorer.weights + row * width, std::min(kBlockRows, end_row - row),
          width, dz + begin * rows + row, rows, count,
          sums.data() + (part * examples + begin) * padded);
    }
  });
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t d = 0; d < width; ++d) {
      A sum = 0;
      for (int64_t part = 0; part < parts; ++part) {
        sum += sums[(part * examples + i) * padded + d];
      }
      dx[i * width + d] = sum;
    }
  }
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(LogProbs, T) TF_HSM_MAKE(LogProbsGrad, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
