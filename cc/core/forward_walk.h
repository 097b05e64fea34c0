// The forward of small groups: each example walks its path.
//
// The rows of the groups on a path lie anywhere, but their addresses are known
// before the first is needed: they are gathered as pointers and asked for
// ahead. The softmaxes of the groups are made side by side in the lanes of
// vectors, and dx is one product of all their dz with all their rows.

#ifndef TF_HSM_CC_CORE_FORWARD_WALK_H_
#define TF_HSM_CC_CORE_FORWARD_WALK_H_

#include <cstdint>

#include "cc/core/kernels.h"
#include "cc/core/softmax.h"
#include "cc/core/tile.h"

namespace tf_hsm {
namespace TF_HSM_ISA {

// Asks for a row of weights before it is needed.
template <typename T>
TF_HSM_INLINE void PrefetchRow(const T* row, int64_t width) {
  const char* first = reinterpret_cast<const char*>(row);
  const int64_t bytes = width * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + i);
}

// Up to kGroups small groups of one example's path, from the leaf upwards.
template <typename T>
struct PathPart {
  using A = Accumulator<T>;
  static constexpr int kGroups = 32;
  static constexpr int kNextRows = 8;
  static constexpr int kRows = kGroups * static_cast<int>(kMaxWalkFanout);

  int num_groups = 0;
  int num_rows = 0;
  const T* rows[kRows + kTileRows];  // of all the groups, one after another
  A z[kRows + kTileRows];            // their logits, then dz
  const Node* nodes[kGroups];
  int64_t targets[kGroups];
  A max[kGroups], sum[kGroups];
  const T* next[kNextRows];  // what is needed after these rows
  int num_next = 0;

  // Adds the groups from `index` on; returns the node where it stopped.
  int64_t Collect(const Problem<T>& problem, int64_t index, int64_t* local) {
    num_groups = num_rows = 0;
    while (index >= 0 && num_groups < kGroups) {
      const Node& node = problem.plan->nodes[index];
      if (node.fanout <= kMaxWalkFanout) {
        nodes[num_groups] = &node;
        targets[num_groups++] = *local;
        const T* w = problem.weights + node.first_row * problem.width;
        for (int64_t k = 0; k < node.fanout; ++k) {
          rows[num_rows++] = w + k * problem.width;
        }
      }
      *local = node.parent_local;
      index = node.parent;
    }
    // A whole last tile.
    for (int i = 0; i < kTileRows && num_rows > 0; ++i) {
      rows[num_rows + i] = rows[num_rows - 1];
    }
    return index;
  }

  // Notes the first rows of the path that begins at `index`.
  void CollectNext(const Problem<T>& problem, int64_t index) {
    num_next = 0;
    while (index >= 0 && num_next < kNextRows) {
      const Node& node = problem.plan->nodes[index];
      if (node.fanout <= kMaxWalkFanout) {
        const T* w = problem.weights + node.first_row * problem.width;
        for (int64_t k = 0; k < node.fanout && num_next < kNextRows; ++k) {
          next[num_next++] = w + k * problem.width;
        }
      }
      index = node.parent;
    }
  }

  void MakeLogits(const Problem<T>& problem, const A* x) {
    for (int i = 0; i < num_rows; i += kTileRows) {
      for (int j = i + kNextRows; j < i + kNextRows + kTileRows; ++j) {
        if (j < num_rows) {
          PrefetchRow(rows[j], problem.width);
        } else if (j - num_rows < num_next) {
          PrefetchRow(next[j - num_rows], problem.width);
        }
      }
      VectorN<A, kTileRows> dots;
      DotTile<T, 1, false>(Rows<const T>{rows + i},
                           Matrix<const A>{x, problem.width}, problem.width,
                           &dots);
      __builtin_memcpy(z + i, &dots, sizeof(dots));
    }
    if (problem.biases == nullptr) return;
    A* logits = z;
    for (int g = 0; g < num_groups; ++g) {
      for (int64_t k = 0; k < nodes[g]->fanout; ++k) {
        *logits++ +=
            LoadPartial(problem.biases + nodes[g]->first_row + k, 1)[0];
      }
    }
  }

  // z becomes exp(z - max) and `sum` its sum, all groups side by side in the
  // lanes of vectors. Returns the loss.
  A Softmax() {
    constexpr int lanes = kLanes<A>;
    static_assert(kGroups % lanes == 0, "groups fill vectors");
    const A lowest = -static_cast<A>(__builtin_inf());
    A lane_z[kMaxWalkFanout][kGroups];
    A target[kGroups], log_sum[kGroups];
    int most = 0;
    for (int g = 0; g < num_groups; ++g) {
      const int fanout = static_cast<int>(nodes[g]->fanout);
      most = fanout > most ? fanout : most;
    }
    const A* logits = z;
    for (int g = 0; g < num_groups; ++g) {
      const int64_t fanout = nodes[g]->fanout;
      target[g] = logits[targets[g]];
      for (int64_t k = 0; k < most; ++k) {
        lane_z[k][g] = k < fanout ? logits[k] : lowest;
      }
      logits += fanout;
    }
    for (int k = 0; k < most; ++k) {
      for (int g = num_groups; g % lanes != 0; ++g) lane_z[k][g] = 0;
    }
    for (int g = 0; g < num_groups; g += lanes) {
      Vector<A> top = Load(lane_z[0] + g);
      for (int k = 1; k < most; ++k) {
        const Vector<A> v = Load(lane_z[k] + g);
        top = v > top ? v : top;
      }
      top = top == lowest ? Vector<A>{} : top;
      Vector<A> total = {};
      for (int k = 0; k < most; ++k) {
        const Vector<A> e = Exp<A>(Load(lane_z[k] + g) - top);
        Store(lane_z[k] + g, e);
        total += e;
      }
      Store(max + g, top);
      Store(sum + g, total);
      Store(log_sum + g, Log<A>(total));
    }
    A loss = 0;
    A* out = z;
    for (int g = 0; g < num_groups; ++g) {
      // lse - target, in an order that keeps the digits of large logits.
      loss += log_sum[g] + (max[g] - target[g]);
      for (int64_t k = 0; k < nodes[g]->fanout; ++k) *out++ = lane_z[k][g];
    }
    return loss;
  }

  // z becomes the probabilities, which are kept if asked for, and then dz.
  void MakeGradients(int64_t at, A* probs) {
    A* values = z;
    for (int g = 0; g < num_groups; ++g) {
      const Node& node = *nodes[g];
      const A scale = 1 / sum[g];
      for (int64_t k = 0; k < node.fanout; ++k) values[k] *= scale;
      if (probs != nullptr) {
        __builtin_memcpy(
            probs + node.prob_offset + (at - node.begin) * node.fanout, values,
            node.fanout * sizeof(A));
      }
      values[targets[g]] -= 1;
      values += node.fanout;
    }
  }
};

template <typename T>
void ForwardWalk(const Problem<T>& problem, int64_t begin, int64_t end,
                 const ForwardOutputs<T>& out) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  const int64_t width = problem.width;
  PathPart<T> part;
  for (int64_t at = begin; at < end; ++at) {
    const A* x = problem.x + at * Padded(width);
    const int64_t example = plan.order[at];
    int64_t index = plan.leaf_node[at];
    int64_t local = plan.leaf_local[at];
    while (index >= 0) {
      index = part.Collect(problem, index, &local);
      const bool last = index < 0;
      part.CollectNext(problem, !last          ? index
                                : at + 1 < end ? plan.leaf_node[at + 1]
                                               : -1);
      part.MakeLogits(problem, x);
      out.loss[example] += part.Softmax();
      if (out.normalizers != nullptr) {
        for (int g = 0; g < part.num_groups; ++g) {
          const Node& node = *part.nodes[g];
          const int64_t pass = node.pass_offset + at - node.begin;
          out.normalizers[2 * pass] = part.max[g];
          out.normalizers[2 * pass + 1] = 1 / part.sum[g];
        }
      }
      if (out.dx == nullptr && out.probs == nullptr) continue;
      part.MakeGradients(at, out.probs);
      if (out.dx != nullptr) {
        Outer<T, true>(Strided<A>{part.z, 0, 1}, 1, part.num_rows,
                       Rows<const T>{part.rows}, width,
                       Matrix<A>{out.dx + example * width, width});
      }
    }
  }
}

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_FORWARD_WALK_H_
