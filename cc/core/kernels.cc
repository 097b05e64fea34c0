// The hot loops, compiled once per ISA.
//
// Forward, a group of K rows and M examples: the rows stream through the cache
// once, in blocks. A block's logits are made, an online softmax keeps the
// running maximum m and s = sum exp(z - m) of each example, and the block's
// part of  sum_k exp(z_k - m) w_k  is added while its rows are still in the
// cache (rescaled when m grows). So the loss and
//     dx = softmax(z) W - w_label
// come from one read of W. That is allowed because exp(z - m) / s is the
// softmax whatever m is. Cost: K width sizeof(T) bytes from memory, 4 M K width
// FLOP with dx and 2 M K width without.
//
// Backward: dz = g (P - Y) with the saved P, then dW = dz^T x, written once.

#include "cc/core/kernels.h"

#include <math.h>

#include "cc/core/tile.h"
#include "cc/core/vector.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
namespace {

// Rows of weights in a block, so that a block read from memory by the logits is
// in the cache for dx: the first cache for few examples, whose dx is soon made;
// the second for more, whose sums are then loaded and stored less often.
constexpr int64_t kMaxBlockRows = 64;
template <typename T>
int64_t BlockRows(int64_t width, int64_t examples) {
  if (width == 0) return kMaxBlockRows;
  const int64_t bytes = examples < 8 ? 20 << 10 : 64 << 10;
  const int64_t rows = bytes / (width * static_cast<int64_t>(sizeof(T)));
  const int64_t even = rows / 8 * 8;
  return even < 8 ? 8 : even > kMaxBlockRows ? kMaxBlockRows : even;
}

// Memory of a work item, kept by its thread for the next one.
template <typename A>
A* Scratch(int64_t count) {
  struct Buffer {
    A* data = nullptr;
    int64_t size = 0;
    ~Buffer() { __builtin_free(data); }
  };
  static thread_local Buffer buffer;
  if (count > buffer.size) {
    __builtin_free(buffer.data);
    const int64_t bytes = (count * sizeof(A) + 4095) / 4096 * 4096;
    buffer.data = static_cast<A*>(aligned_alloc(4096, bytes));
    if (buffer.data == nullptr) abort();
    buffer.size = bytes / static_cast<int64_t>(sizeof(A));
  }
  return buffer.data;
}

template <typename A>
A Max(const A* z, int64_t count) {
  A max = z[0];
  int64_t k = 0;
  if (count >= kLanes<A>) {
    Vector<A> best = Load(z);
    for (k = kLanes<A>; k + kLanes<A> <= count; k += kLanes<A>) {
      const Vector<A> v = Load(z + k);
      best = v > best ? v : best;
    }
    max = MaxLanes<A>(best);
  }
  for (; k < count; ++k) max = z[k] > max ? z[k] : max;
  return max;
}

// e[k] = exp(z[k] - shift); returns their sum. e may be z.
template <typename A>
A ExpAndSum(const A* z, int64_t count, A shift, A* e) {
  Vector<A> sum = {};
  int64_t k = 0;
  for (; k + kLanes<A> <= count; k += kLanes<A>) {
    const Vector<A> v = Exp<A>(Load(z + k) - shift);
    Store(e + k, v);
    sum += v;
  }
  if (k < count) {
    const int64_t rest = count - k;
    A padded[kLanes<A>];
    Store(padded, Exp<A>(LoadPartial(z + k, rest) - shift));
    for (int64_t i = rest; i < kLanes<A>; ++i) padded[i] = 0;
    __builtin_memcpy(e + k, padded, rest * sizeof(A));
    sum += Load(padded);
  }
  return SumLanes<A>(sum);
}

template <typename A>
void Scale(A* y, int64_t count, A factor) {
  for (int64_t d = 0; d < count; ++d) y[d] *= factor;
}

// out[d] += sum[d] * factor - w[d].
template <typename T>
void AddExpectation(const Accumulator<T>* sum, Accumulator<T> factor,
                    const T* w, int64_t width, Accumulator<T>* out) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    Store(out + d, Load(out + d) + (Load(sum + d) * factor - Load(w + d)));
  }
  if (d < width) {
    const int64_t rest = width - d;
    StorePartial(out + d,
                 LoadPartial(out + d, rest) +
                     (LoadPartial(sum + d, rest) * factor -
                      LoadPartial(w + d, rest)),
                 rest);
  }
}

template <typename A>
A Log(A a);
template <>
float Log(float a) {
  return ::logf(a);
}
template <>
double Log(double a) {
  return ::log(a);
}

// A maximum that can be subtracted: a group may have begun with logits of
// minus infinity only, which carry no mass.
template <typename A>
A Shift(A max) {
  return max == -static_cast<A>(INFINITY) ? 0 : max;
}

template <typename T>
void ForwardGroup(const Problem<T>& problem, int64_t node_index, int64_t begin,
                  int64_t end, const ForwardOutputs<T>& out) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  const Node& node = plan.nodes[node_index];
  const int64_t width = problem.width, padded = Padded(width);
  const int64_t examples = end - begin;
  const int64_t block = BlockRows<T>(width, examples);
  const Matrix<const A> x = {problem.x + begin * padded, padded};
  const int64_t* targets = plan.targets.data() + node.pass_offset -
                           node.begin + begin;
  const int64_t* order = plan.order.data() + begin;
  const bool with_dx = out.dx != nullptr;

  A* scratch = Scratch<A>(kMaxItemExamples * (kMaxBlockRows + padded));
  const Matrix<A> e = {scratch, kMaxBlockRows};
  const Matrix<A> sums = {scratch + kMaxItemExamples * kMaxBlockRows, padded};
  const int64_t prob_row = node.prob_offset + (begin - node.begin) * node.fanout;
  A max[kMaxItemExamples], total[kMaxItemExamples], target[kMaxItemExamples];
  for (int64_t m = 0; m < examples; ++m) {
    max[m] = -static_cast<A>(INFINITY);
    total[m] = 0;
  }

  for (int64_t k0 = 0; k0 < node.fanout; k0 += block) {
    const int64_t rows =
        node.fanout - k0 < block ? node.fanout - k0 : block;
    const int64_t first = node.first_row + k0;
    const Matrix<const T> w = {problem.weights + first * width, width};
    const Matrix<A> z = out.probs == nullptr
                            ? e
                            : Matrix<A>{out.probs + prob_row + k0, node.fanout};
    Logits<T>(w, rows, problem.biases ? problem.biases + first : nullptr, x,
              examples, width, z);
    for (int64_t m = 0; m < examples; ++m) {
      const int64_t t = targets[m] - k0;
      if (t >= 0 && t < rows) target[m] = z.row(m)[t];
      const A block_max = Max(z.row(m), rows);
      if (block_max > max[m]) {
        const A shrink = k0 == 0 ? 0 : Exp<A>(Splat<A>(max[m] - block_max))[0];
        total[m] *= shrink;
        if (with_dx && k0 > 0) Scale(sums.row(m), width, shrink);
        max[m] = block_max;
      }
      total[m] += ExpAndSum(z.row(m), rows, Shift(max[m]), e.row(m));
    }
    if (!with_dx) continue;
    const Strided<A> factors = {e.data, e.stride, 1};
    if (k0 == 0) {
      Outer<T, false>(factors, examples, rows, w, width, sums);
    } else {
      Outer<T, true>(factors, examples, rows, w, width, sums);
    }
  }

  for (int64_t m = 0; m < examples; ++m) {
    const A lse = Shift(max[m]) + Log(total[m]);
    out.loss[order[m]] += lse - target[m];
    const int64_t pass = node.pass_offset + begin - node.begin + m;
    if (out.lse != nullptr) out.lse[pass] = lse;
    if (out.probs != nullptr) {
      A* probs = out.probs + prob_row + m * node.fanout;
      ExpAndSum(probs, node.fanout, lse, probs);
    }
    if (with_dx) {
      AddExpectation<T>(
          sums.row(m), 1 / total[m],
          problem.weights + (node.first_row + targets[m]) * width, width,
          out.dx + order[m] * width);
    }
  }
}

// The softmax of a group of `fanout` rows for one example; x, dx are padded.
template <typename T, int fanout>
Accumulator<T> WalkGroup(const T* w, const T* biases, int64_t width,
                         const Accumulator<T>* x, int64_t target,
                         Accumulator<T>* lse, Accumulator<T>* probs,
                         Accumulator<T>* dx) {
  using A = Accumulator<T>;
  constexpr int lanes = kLanes<A>;
  Vector<A> sums[fanout] = {};
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    const Vector<A> xs = Load(x + d);
#pragma GCC unroll 8
    for (int k = 0; k < fanout; ++k) sums[k] += xs * Load(w + k * width + d);
  }
  if (d < width) {
    const Vector<A> xs = Load(x + d);
#pragma GCC unroll 8
    for (int k = 0; k < fanout; ++k) {
      sums[k] += xs * LoadPartial(w + k * width + d, width - d);
    }
  }
  constexpr int padded = fanout > lanes ? fanout : lanes;
  A z[padded];
  for (int k = 0; k < padded; ++k) z[k] = -static_cast<A>(INFINITY);
#pragma GCC unroll 8
  for (int k = 0; k < fanout; ++k) z[k] = SumLanes<A>(sums[k]);
  A max = -static_cast<A>(INFINITY);
  for (int k = 0; k < fanout; ++k) {
    if (biases != nullptr) z[k] += Load(biases + k)[0];
    max = z[k] > max ? z[k] : max;
  }
  const A target_logit = z[target];
  const A total = ExpAndSum(z, padded, Shift(max), z);
  *lse = Shift(max) + Log(total);
  const A scale = 1 / total;
  for (int k = 0; k < fanout; ++k) z[k] *= scale;
  if (probs != nullptr) {
    for (int k = 0; k < fanout; ++k) probs[k] = z[k];
  }
  if (dx != nullptr) {
    z[target] -= 1;
    Vector<A> dz[fanout];
#pragma GCC unroll 8
    for (int k = 0; k < fanout; ++k) dz[k] = Splat<A>(z[k]);
    for (d = 0; d + lanes <= width; d += lanes) {
      Vector<A> sum = Load(dx + d);
#pragma GCC unroll 8
      for (int k = 0; k < fanout; ++k) sum += dz[k] * Load(w + k * width + d);
      Store(dx + d, sum);
    }
    if (d < width) {
      Vector<A> sum = Load(dx + d);
#pragma GCC unroll 8
      for (int k = 0; k < fanout; ++k) {
        sum += dz[k] * LoadPartial(w + k * width + d, width - d);
      }
      Store(dx + d, sum);
    }
  }
  return *lse - target_logit;
}

// Asks for the rows of a group before they are needed: the next address is
// known one group ahead.
template <typename T>
void Prefetch(const Problem<T>& problem, const Node& node) {
  const char* first = reinterpret_cast<const char*>(
      problem.weights + node.first_row * problem.width);
  const int64_t bytes = node.fanout * problem.width * sizeof(T);
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + i);
}

template <typename T>
void ForwardWalk(const Problem<T>& problem, int64_t begin, int64_t end,
                 const ForwardOutputs<T>& out) {
  using A = Accumulator<T>;
  const Plan& plan = *problem.plan;
  const int64_t width = problem.width, padded = Padded(width);
  A* dx = out.dx != nullptr ? Scratch<A>(padded) : nullptr;
  for (int64_t at = begin; at < end; ++at) {
    const A* x = problem.x + at * padded;
    A loss = 0;
    if (dx != nullptr) __builtin_memset(dx, 0, padded * sizeof(A));
    int64_t index = plan.leaf_node[at];
    int64_t local = plan.leaf_local[at];
    while (index >= 0) {
      const Node& node = plan.nodes[index];
      if (node.parent >= 0) {
        const Node& next = plan.nodes[node.parent];
        if (next.fanout <= kMaxWalkFanout) Prefetch(problem, next);
      }
      const T* w = problem.weights + node.first_row * width;
      const T* b = problem.biases ? problem.biases + node.first_row : nullptr;
      const int64_t pass = at - node.begin;
      A* probs = out.probs == nullptr
                     ? nullptr
                     : out.probs + node.prob_offset + pass * node.fanout;
      A lse = 0;
      switch (node.fanout) {
#define TF_HSM_WALK(n)                                                     \
  case n:                                                                  \
    loss += WalkGroup<T, n>(w, b, width, x, local, &lse, probs, dx);       \
    break
        TF_HSM_WALK(1);
        TF_HSM_WALK(2);
        TF_HSM_WALK(3);
        TF_HSM_WALK(4);
        TF_HSM_WALK(5);
        TF_HSM_WALK(6);
        TF_HSM_WALK(7);
        TF_HSM_WALK(8);
#undef TF_HSM_WALK
        default:
          break;
      }
      if (out.lse != nullptr && node.fanout <= kMaxWalkFanout) {
        out.lse[node.pass_offset + pass] = lse;
      }
      local = node.parent_local;
      index = node.parent;
    }
    const int64_t example = plan.order[at];
    out.loss[example] += loss;
    if (dx != nullptr) {
      A* total = out.dx + example * width;
      for (int64_t d = 0; d < width; ++d) total[d] += dx[d];
    }
  }
}

// to[i] = from[i], rounded to T. Memory that is too much for the cache is
// written past it, where T allows: half the traffic.
template <typename T>
void Write(const Accumulator<T>* from, int64_t count, bool past_cache, T* to) {
  constexpr int lanes = kLanes<Accumulator<T>>;
  int64_t i = 0;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (past_cache) {
      const int64_t misaligned =
          reinterpret_cast<uintptr_t>(to) % kVectorBytes / sizeof(T);
      for (; i < count && (misaligned + i) % lanes != 0; ++i) to[i] = from[i];
      for (; i + lanes <= count; i += lanes) Stream(to + i, Load(from + i));
    }
  }
  for (; i + lanes <= count; i += lanes) Store(to + i, Load(from + i));
  if (i < count) {
    StorePartial(to + i, LoadPartial(from + i, count - i), count - i);
  }
}

template <typename T>
void BackwardRows(const Problem<T>& problem, int64_t node_index, int64_t begin,
                  int64_t end, const BackwardArguments<T>& args) {
  using A = Accumulator<T>;
  constexpr int64_t kBlock = 32, kChunk = 64;  // rows, examples
  const Plan& plan = *problem.plan;
  const Node& node = plan.nodes[node_index];
  const int64_t width = problem.width, padded = Padded(width);
  const int64_t population = node.population();
  const int64_t* targets = plan.targets.data() + node.pass_offset;
  const A* grads = args.loss_grads + node.begin;
  A* scratch = Scratch<A>(kBlock * (kChunk + width));
  const Matrix<A> dz = {scratch, kBlock};  // [examples, rows]
  const Matrix<A> dw = {scratch + kBlock * kChunk, width};

  for (int64_t k0 = begin; k0 < end; k0 += kBlock) {
    const int64_t rows = end - k0 < kBlock ? end - k0 : kBlock;
    const int64_t first = node.first_row + k0;
    A db[kBlock] = {};
    for (int64_t m0 = 0; m0 < population; m0 += kChunk) {
      const int64_t examples =
          population - m0 < kChunk ? population - m0 : kChunk;
      const Matrix<const A> x = {problem.x + (node.begin + m0) * padded,
                                 padded};
      if (args.probs == nullptr) {
        Logits<T>({problem.weights + first * width, width}, rows,
                  problem.biases ? problem.biases + first : nullptr, x,
                  examples, width, dz);
      }
      for (int64_t m = 0; m < examples; ++m) {
        A* row = dz.row(m);
        const A g = grads[m0 + m];
        if (args.probs == nullptr) {
          ExpAndSum(row, rows, args.lse[node.pass_offset + m0 + m], row);
        } else {
          __builtin_memcpy(row,
                           args.probs + node.prob_offset +
                               (m0 + m) * node.fanout + k0,
                           rows * sizeof(A));
        }
        const int64_t t = targets[m0 + m] - k0;
        if (t >= 0 && t < rows) row[t] -= 1;
        for (int64_t k = 0; k < rows; ++k) {
          row[k] *= g;
          db[k] += row[k];
        }
      }
      const Strided<A> factors = {dz.data, 1, dz.stride};
      if (m0 == 0) {
        Outer<A, false>(factors, rows, examples, x, width, dw);
      } else {
        Outer<A, true>(factors, rows, examples, x, width, dw);
      }
    }
    const int64_t row = node.row_offset + k0;
    Write(dw.data, rows * width, args.past_cache, args.dw + row * width);
    Write(db, rows, false, args.db + row);
  }
  StreamFence();
}

template <typename T>
const Kernels<T>& Table() {
  static constexpr Kernels<T> table = {ForwardGroup<T>, ForwardWalk<T>,
                                       BackwardRows<T>};
  return table;
}

}  // namespace

#define TF_HSM_TABLE(T, name) \
  const Kernels<T>& name() { return Table<T>(); }
TF_HSM_TABLE(float, FloatKernels)
TF_HSM_TABLE(double, DoubleKernels)
TF_HSM_TABLE(bfloat16, Bfloat16Kernels)
TF_HSM_TABLE(half, HalfKernels)
#undef TF_HSM_TABLE

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
