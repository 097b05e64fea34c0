// Classes drawn from a root down, a warp per draw.
//
// The root is drawn by its root_log_probs, where there are any. At each group
// the warp makes all logits, then their softmax's running sums in
// float64, and takes the row whose share holds the level's uniform number
// (cc/core/api/sample.h). The number is a function of the seeds, the draw and
// the level, so draws do not depend on each other. Bytes: the rows of the
// groups on the path, once per draw, from the second cache where draws share
// them.

#include <cmath>

#include "cc/core/base/philox.h"
#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/predict/check_sampling.h"
#include "cc/cuda/predict/log_sum.h"
#include "cc/cuda/predict/places.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {
namespace {

constexpr int kThreads = 128;

// Bytes of the logits of all warps; more if one block's already are.
constexpr int64_t kMaxLogitsBytes = int64_t{1} << 30;

template <typename T>
struct SampleKernelArguments {
  TreeView tree;
  Places places;
  const Accumulator<T>* root_log_probs;
  const T* weights;
  const T* biases;
  int64_t width;
  const Accumulator<T>* x;
  int64_t count;  // of draws
  int64_t max_fanout;
  SampleArguments options;
  SoftCap<Accumulator<T>> soft_cap;
  Accumulator<T>* logits;  // [warps, max_fanout]
  int64_t* classes;
};

// Fills z [fanout] with the logits of a group's rows, of those without weights
// with 0; returns the largest.
template <typename T>
TF_HSM_DEVICE Accumulator<T> GroupLogits(const SampleKernelArguments<T>& in,
                                         const Accumulator<T>* x, int64_t first,
                                         int64_t fanout, Accumulator<T>* z) {
  using A = Accumulator<T>;
  constexpr int kRows = 4;  // at a time
  const int64_t rows = in.tree.weight_rows_of(fanout);
  const int64_t first_weights = in.tree.weight_row(first);
  A max = rows < fanout ? A(0) : -static_cast<A>(INFINITY);
  for (int64_t k = rows + Lane(); k < fanout; k += kWarp) z[k] = 0;
  for (int64_t k = 0; k < rows; k += kRows) {
    A sums[kRows] = {};
    for (int64_t d = Lane(); d < in.width; d += kWarp) {
      TF_HSM_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const int64_t row = first_weights + Smaller(k + i, rows - 1);
        sums[i] += Widen(in.weights[row * in.width + d]) * x[d];
      }
    }
    TF_HSM_UNROLL
    for (int i = 0; i < kRows; ++i) {
      A sum = WarpSum(sums[i]);
      if (k + i >= rows) break;
      if (in.biases != nullptr) sum += Widen(in.biases[first_weights + k + i]);
      sum = in.soft_cap.Logit(sum);
      if (Lane() == 0) z[k + i] = sum;
      max = Max(max, sum);
    }
  }
  SyncWarp();
  return max;
}

// The index that the uniform number u picks, the same in all lanes; -1 where
// there is no total. Each lane sums a run of the logits.
template <typename A>
TF_HSM_DEVICE int64_t Pick(const A* z, int64_t fanout, A shift, A scale,
                           double u) {
  const int64_t run = CeilDivide(fanout, kWarp);
  const int64_t begin = Smaller(Lane() * run, fanout);
  const int64_t end = Smaller(begin + run, fanout);
  double sum = 0;
  for (int64_t k = begin; k < end; ++k) sum += Exp((z[k] - shift) * scale);
  double before = 0, total = 0;
  for (int lane = 0; lane < kWarp; ++lane) {
    if (lane == Lane()) before = total;
    total += ShuffleFrom(sum, lane);
  }
  if (!(total > 0 && total < INFINITY)) return -1;
  const double point = fmin(u * total, nextafter(total, 0.0));
  int64_t picked = fanout;
  double so_far = before;
  for (int64_t k = begin; k < end && picked == fanout; ++k) {
    so_far += Exp((z[k] - shift) * scale);
    if (so_far > point) picked = k;
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    picked = Smaller(picked, ShuffleXor(picked, lanes));
  }
  return Smaller(picked, fanout - 1);
}

// The group that a draw begins at, that of one of the roots by the uniform
// number u; -1 where there is no total.
template <typename T>
TF_HSM_DEVICE int64_t PickRoot(const SampleKernelArguments<T>& in,
                               int64_t example, double u) {
  using A = Accumulator<T>;
  const int64_t roots = in.tree.num_roots;
  const A* starts = in.root_log_probs + example * roots;
  A max = -static_cast<A>(INFINITY);
  for (int64_t r = Lane(); r < roots; r += kWarp) max = Max(max, starts[r]);
  const int64_t root = Pick(starts, roots, Shift(WarpMax(max)), A(1), u);
  return root < 0 ? -1 : GroupAt(in.places, root);
}

template <typename T>
TF_HSM_KERNEL(kThreads)
DrawClasses(SampleKernelArguments<T> in) {
  using A = Accumulator<T>;
  const int warps = NumThreads() / kWarp;
  const int64_t own = BlockIndex() * warps + WarpIndex();
  A* z = in.logits + own * in.max_fanout;
  const A scale = static_cast<A>(1 / in.options.temperature);
  const TreeView& tree = in.tree;
  for (int64_t draw = own; draw < in.count; draw += NumBlocks() * warps) {
    const int64_t example = draw / in.options.num_samples;
    const A* x = in.x + example * in.width;
    const Uniform uniform(in.options.seed_0, in.options.seed_1);
    auto number = [&](uint64_t level) {
      return uniform.At(static_cast<uint64_t>(draw), level);
    };
    uint64_t level = 0;
    int64_t group = 0, result = -1;
    if (in.root_log_probs != nullptr) {
      group = PickRoot(in, example, number(level++));
    }
    for (; group >= 0; ++level) {
      const int64_t first = tree.group_offsets[group];
      const int64_t fanout = tree.group_offsets[group + 1] - first;
      if (first < 0 || fanout < 1 || fanout > in.max_fanout ||
          first + fanout > tree.num_rows) {
        break;
      }
      const A max = GroupLogits(in, x, first, fanout, z);
      const int64_t k = Pick(z, fanout, Shift(max), scale, number(level));
      SyncWarp();  // before the next group's logits
      if (k < 0) break;
      const int64_t below = tree.row_below[first + k];
      if (below < 0) {
        result = ~below < tree.num_classes ? ~below : -1;
        break;
      }
      if (below <= group || below >= tree.num_groups) break;
      group = below;
    }
    if (Lane() == 0) in.classes[draw] = result;
  }
}

template <typename T>
int64_t LayOutSample(const Launcher& launcher, const Batch<T>& batch,
                     int64_t draws, Arena* arena, Accumulator<T>** x,
                     Accumulator<T>** logits) {
  const int64_t warps = kThreads / kWarp;
  const int64_t bytes = warps * batch.shape.max_fanout * sizeof(Accumulator<T>);
  const int64_t blocks =
      Smaller(launcher.Grid(CeilDivide(draws, warps)),
              Larger<int64_t>(kMaxLogitsBytes / Larger<int64_t>(bytes, 1), 1));
  arena->Take(batch.size * batch.width, x);
  arena->Take(blocks * warps * batch.shape.max_fanout, logits);
  return blocks;
}

}  // namespace

template <typename T>
int64_t SampleBytes(const Batch<T>& batch, const SampleArguments& arguments) {
  Arena arena(nullptr);
  Accumulator<T>*x, *logits;
  LayOutSample(Launcher(nullptr), batch, batch.size * arguments.num_samples,
               &arena, &x, &logits);
  return arena.bytes();
}

template <typename T>
std::string Sample(const Batch<T>& batch, const Levels& levels,
                   const SampleArguments& arguments, int64_t* classes,
                   void* scratch, void* stream) {
  std::string error = CheckBatch(batch);
  if (error.empty()) error = CheckSampling(arguments);
  if (error.empty() && batch.root_log_probs == nullptr) {
    error = CheckBetween("num_roots without root_log_probs",
                         batch.tree.num_roots, 1, 1);
  }
  if (!error.empty()) return error;
  const int64_t draws = batch.size * arguments.num_samples;
  if (draws == 0) return "";
  const Launcher launcher(stream);
  Arena arena(scratch);
  Accumulator<T>*x, *logits;
  const int64_t blocks =
      LayOutSample(launcher, batch, draws, &arena, &x, &logits);
  PackInputs(launcher, batch, nullptr, x);
  const SampleKernelArguments<T> in = {
      batch.tree,
      levels.places,
      batch.root_log_probs,
      batch.weights,
      batch.biases,
      batch.width,
      x,
      draws,
      batch.shape.max_fanout,
      arguments,
      SoftCap<Accumulator<T>>(batch.logit_soft_cap),
      logits,
      classes};
  Launch(DrawClasses<T>, blocks, kThreads, 0, stream, in);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(SampleBytes, T) TF_HSM_MAKE(Sample, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
