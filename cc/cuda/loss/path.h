// The rest of the forward: a warp per example walks its path.
//
// At a small group it makes the logits, their softmax, and dx at once, with the
// rows of the whole path prefetched first, since their addresses are known. At
// a large group it merges what the items of large_forward.h left:
//   m = max m_i;   s = sum exp(m_i - m) s_i;   v = sum exp(m_i - m) v_i
//   loss = m + log s - z_target;   dx = v / s - w_target
// or those of hot_logits.h and hot_sums.h, where the v_i are relative to m.
// With a z-loss, v / s is taken 1 + 2 z_loss (m + log s) times; with a soft
// cap, v has the slopes of the rows, and w_target is multiplied by its own.
// Where labels are smoothed, the mean row (node_sums.h) takes a part of the
// target row's place. Levels are added in the order of the path, and pieces in
// the order of their rows, so the sums do not depend on who runs when.
//
// Bytes: the rows of small groups (again from the first cache for dx), one row
// per large pass, and the partial results. x and dx lie in shared memory.

#ifndef TF_HSM_CC_CUDA_LOSS_PATH_H_
#define TF_HSM_CC_CUDA_LOSS_PATH_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/node_sums.h"

namespace tf_hsm::gpu {

constexpr int kPathThreads = 256;

template <typename T>
struct PathArguments {
  TreeView tree;
  const T* weights;
  const T* biases;
  int64_t width;
  int64_t small_fanout;
  Accumulator<T> z_loss;
  Buffers<T> buffers;
  LossOutputs<T> out;
};

// A group on the path of an example.
struct Step {
  int64_t first_row;
  int64_t fanout;
  int64_t row;  // the one on the path
};

template <typename T>
class Path {
 public:
  using A = Accumulator<T>;

  TF_HSM_DEVICE Path(const PathArguments<T>& in, int64_t position)
      : in_(in),
        plan_(in.buffers.plan),
        smoothing_(in.buffers.smoothing),
        position_(position) {
    x_ = reinterpret_cast<A*>(SharedMemory()) + 2 * in.width * WarpIndex();
    dx_ = x_ + in.width;
  }

  TF_HSM_DEVICE void Walk() {
    const int64_t example = plan_.order[position_];
    const int depth = plan_.depths[position_];
    const bool with_dx = in_.out.dx != nullptr;
    for (int64_t d = Lane(); d < in_.width; d += kWarp) {
      if (in_.small_fanout > 0 || smoothing_.amount > 0) {
        x_[d] = in_.buffers.x[position_ * in_.width + d];
      }
      dx_[d] = 0;
    }
    SyncWarp();
    for (int base = 0; base < depth; base += kWarp) {
      const Step own = LookUp(base + Lane(), depth);
      const int count = Smaller(kWarp, depth - base);
      for (int i = 0; i < count; ++i) {
        const Step step = {ShuffleFrom(own.first_row, i),
                           ShuffleFrom(own.fanout, i), ShuffleFrom(own.row, i)};
        const int64_t pass = plan_.Pass(base + i, position_);
        if (step.fanout <= kMaxSmallFanout) {
          Small(step, pass, with_dx);
        } else {
          Large(step, pass, with_dx);
        }
      }
    }
    SyncWarp();
    // RankExamples wrote the loss of an example without a path.
    if (Lane() == 0 && depth > 0) in_.out.loss[example] = loss_;
    if (!with_dx) return;
    const A factor =
        in_.out.dx_factors == nullptr ? A(1) : in_.out.dx_factors[example];
    for (int64_t d = Lane(); d < in_.width; d += kWarp) {
      in_.out.dx[example * in_.width + d] = depth > 0 ? factor * dx_[d] : A(0);
    }
  }

 private:
  // Each lane finds the group of another level, and asks for its rows.
  TF_HSM_DEVICE Step LookUp(int level, int depth) const {
    Step step = {0, 0, 0};
    if (level >= depth) return step;
    step.row = plan_.path_rows[plan_.Pass(level, position_)];
    const int64_t group = in_.tree.row_groups[step.row];
    step.first_row = in_.tree.group_offsets[group];
    step.fanout = in_.tree.group_offsets[group + 1] - step.first_row;
    if (step.fanout > kMaxSmallFanout) return step;
    const int64_t first = in_.tree.weight_row(step.first_row);
    const int64_t rows = in_.tree.weight_rows_of(step.fanout);
    const char* begin =
        reinterpret_cast<const char*>(in_.weights + first * in_.width);
    const int64_t bytes = rows * in_.width * sizeof(T);
    for (int64_t at = 0; at < bytes; at += 128) Prefetch(begin + at);
    return step;
  }

  TF_HSM_DEVICE void Small(const Step& step, int64_t pass, bool with_dx) {
    const int fanout = static_cast<int>(step.fanout);
    const int target = static_cast<int>(step.row - step.first_row);
    // Logits of rows without weights stay 0.
    const int rows = static_cast<int>(in_.tree.weight_rows_of(step.fanout));
    const int64_t first = in_.tree.weight_row(step.first_row);
    const T* w = in_.weights + first * in_.width;
    A z[kMaxSmallFanout] = {};
    for (int64_t d = Lane(); d < in_.width; d += kWarp) {
      const A x = x_[d];
      TF_HSM_UNROLL
      for (int k = 0; k < kMaxSmallFanout; ++k) {
        if (k < rows) z[k] += Widen(w[k * in_.width + d]) * x;
      }
    }
    A max = -static_cast<A>(INFINITY), at_target = 0;
    TF_HSM_UNROLL
    for (int k = 0; k < kMaxSmallFanout; ++k) {
      if (k >= fanout) break;
      if (k < rows) {
        z[k] = WarpSum(z[k]);
        if (in_.biases != nullptr) z[k] += Widen(in_.biases[first + k]);
      }
      max = Max(max, z[k]);
      if (k == target) at_target = z[k];
    }
    const A amount = fanout > 1 ? smoothing_.amount : A(0);
    if (amount > 0) {
      A mean = 0;
      TF_HSM_UNROLL
      for (int k = 0; k < kMaxSmallFanout; ++k) {
        if (k >= fanout) break;
        const A share = smoothing_.Share(step.first_row + k, fanout);
        if (share > 0) mean += share * z[k];
      }
      at_target = smoothing_.Target(at_target, mean);
    }
    const A shift = Shift(max);
    A sum = 0;
    TF_HSM_UNROLL
    for (int k = 0; k < kMaxSmallFanout; ++k) {
      if (k >= fanout) break;
      z[k] = Exp(z[k] - shift);
      sum += z[k];
    }
    loss_ += shift + Log(sum) - at_target;
    const A scale = 1 / sum;
    A* kept = in_.buffers.small_dz + pass * in_.small_fanout;
    TF_HSM_UNROLL
    for (int k = 0; k < kMaxSmallFanout; ++k) {
      if (k >= fanout) break;
      z[k] *= scale;
      if (k == target) z[k] -= 1 - amount;
      if (amount > 0) {
        z[k] -= amount * smoothing_.Share(step.first_row + k, fanout);
      }
      if (Lane() == k) kept[k] = z[k];
    }
    if (!with_dx) return;
    for (int64_t d = Lane(); d < in_.width; d += kWarp) {
      A dx = dx_[d];
      TF_HSM_UNROLL
      for (int k = 0; k < kMaxSmallFanout; ++k) {
        if (k < rows) dx += z[k] * Widen(w[k * in_.width + d]);
      }
      dx_[d] = dx;
    }
  }

  TF_HSM_DEVICE void Large(const Step& step, int64_t pass, bool with_dx) {
    const Buffers<T>& from = in_.buffers;
    const int32_t n = from.pass_nodes[pass];
    if (n < 0 || n >= plan_.counts->num_nodes) return Fail();
    const DeviceNode& node = plan_.nodes[n];
    if (node.first_row != step.first_row || position_ < node.begin ||
        position_ >= node.end) {
      return Fail();
    }
    const int64_t example = position_ - node.begin;
    const bool hot = example < node.Examples(true);
    const PassSlots slots = plan_.counts->cuts.SlotsOf(node, example);
    const int64_t slot =
        (n == 0 ? 0 : plan_.work[n - 1].forward_slots) + slots.first;
    const int64_t pieces = slots.pieces, stride = slots.stride;
    if (slot + (pieces - 1) * stride >= from.bounds.forward_slots) {
      return Fail();
    }
    A max = -static_cast<A>(INFINITY);
    for (int64_t i = Lane(); i < pieces; i += kWarp) {
      max = Max(max, from.partial_sums[2 * (slot + i * stride)]);
    }
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      max = Max(max, ShuffleXor(max, lanes));
    }
    const A shift = Shift(max);
    A sum = 0;
    for (int64_t i = Lane(); i < pieces; i += kWarp) {
      const A* piece = from.partial_sums + 2 * (slot + i * stride);
      sum += Exp(piece[0] - shift) * piece[1];
    }
    sum = WarpSum(sum);
    A scale = 1 / sum;
    const A* mean = NodeSums(from, n, in_.width);
    A at_target = from.target_logits[pass];
    const A slope = from.soft_cap.Slope(at_target);
    if (mean != nullptr) {
      at_target = smoothing_.Target(at_target, Product(mean) + mean[in_.width]);
    }
    const A log_sum = shift + Log(sum);
    loss_ += log_sum - at_target;
    if (in_.z_loss > 0) {
      loss_ += in_.z_loss * log_sum * log_sum;
      scale *= 1 + 2 * in_.z_loss * log_sum;
    }
    if (Lane() == 0) {
      from.normalizers[2 * pass] = shift;
      from.normalizers[2 * pass + 1] = scale;
    }
    if (!with_dx) return;
    const T* target = in_.weights + step.row * in_.width;
    for (int64_t d = Lane(); d < in_.width; d += kWarp) {
      A v = 0;
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t at = slot + i * stride;
        const A factor = hot ? A(1) : Exp(from.partial_sums[2 * at] - shift);
        v += factor * from.partial_rows[at * in_.width + d];
      }
      A expected = slope * Widen(target[d]);
      if (mean != nullptr) expected = smoothing_.Target(expected, mean[d]);
      dx_[d] += v * scale - expected;
    }
  }

  // The product of a row and x.
  TF_HSM_DEVICE A Product(const A* row) const {
    A sum = 0;
    for (int64_t d = Lane(); d < in_.width; d += kWarp) sum += row[d] * x_[d];
    return WarpSum(sum);
  }

  // The arrays of the tree contradict each other.
  TF_HSM_DEVICE void Fail() { loss_ = static_cast<A>(NAN); }

  const PathArguments<T>& in_;
  const DevicePlan& plan_;
  const Smoothing<A>& smoothing_;
  const int64_t position_;
  A* x_;
  A* dx_;
  A loss_ = 0;
};

template <typename T>
TF_HSM_KERNEL(kPathThreads)
WalkPaths(PathArguments<T> in) {
  const int warps = NumThreads() / kWarp;
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < in.buffers.plan.size;
       i += NumBlocks() * warps) {
    Path<T>(in, i).Walk();
    SyncWarp();
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_PATH_H_
