// A step of a rule on the rows that a gradient names: see sparse_update.h.
//
// A stable sort of the rows brings the values of each together, in their order.
// Then a warp per row sums them in shared memory and makes the step. Bytes: the
// values once, the touched rows and their slots read and written once; the sort
// is of 12 bytes for each value's row.

#include <cstdint>
#include <string>

#include "cc/cuda/api/sparse_update.h"
#include "cc/cuda/device/block_sort.h"
#include "cc/cuda/device/launcher.h"
#include "cc/cuda/device/sort_scan.h"
#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/row_output.h"

namespace tf_hsm::gpu {
namespace {

// In the order of the rows; a row that is not there is num_rows.
struct SortedRows {
  uint64_t* keys;  // [count], the rows as they came
  uint64_t* rows;  // [count]
  int32_t* given;  // [count]: 0, 1, 2, ...
  int32_t* order;  // [count], of the values
  void* sort;      // scratch of the sort
  int64_t sort_bytes;
};

// Lays the arrays out from `scratch` on; returns the bytes.
int64_t LayOut(int64_t count, int64_t num_rows, void* scratch,
               SortedRows* sorted) {
  // A query that fails asks for nothing; then the sort fails and says why.
  sorted->sort_bytes = 0;
  SortPairs(nullptr, &sorted->sort_bytes, nullptr, nullptr, nullptr, nullptr,
            count, BitsFor(num_rows), nullptr);
  Arena arena(scratch);
  arena.Take(count, &sorted->keys);
  arena.Take(count, &sorted->rows);
  arena.Take(count, &sorted->given);
  arena.Take(count, &sorted->order);
  arena.Take(sorted->sort_bytes, &sorted->sort);
  return arena.bytes();
}

TF_HSM_KERNEL(kBlockThreads)
FillKeys(const void* rows, bool are_int64, int64_t count, int64_t num_rows,
         SortedRows sorted) {
  for (int64_t i = GlobalIndex(); i < count; i += NumBlocks() * NumThreads()) {
    const int64_t row = are_int64 ? static_cast<const int64_t*>(rows)[i]
                                  : static_cast<const int32_t*>(rows)[i];
    sorted.keys[i] = row >= 0 && row < num_rows ? row : num_rows;
    sorted.given[i] = static_cast<int32_t>(i);
  }
}

template <typename T>
struct StepArguments {
  SortedRows sorted;
  SparseGradient<T> gradient;
  RowOutput<T> out;
};

// Shared memory of a warp: the sum of a row's values, and its terms.
template <typename A>
TF_HSM_HOST_DEVICE int64_t SumBytes(int64_t width) {
  return RoundUp(width * sizeof(A) + sizeof(RowTerms<A>), 16);
}

// The end of the values of the row at `begin`, the same in all lanes.
TF_HSM_DEVICE int64_t EndOf(const SortedRows& sorted, int64_t begin,
                            int64_t count) {
  for (int64_t end = begin + 1;; end += kWarp) {
    const int64_t at = end + Lane();
    const bool same = at < count && sorted.rows[at] == sorted.rows[begin];
    int others = same ? kWarp : Lane();  // the first lane of another row
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      others = Smaller(others, ShuffleXor(others, lanes));
    }
    if (others < kWarp) return end + others;
  }
}

// Adds the values of the row at `begin` of the sorted ones.
template <typename T>
TF_HSM_DEVICE void SumValues(const StepArguments<T>& in, int64_t begin,
                             Accumulator<T>* sum) {
  constexpr int kColumns = 8;  // of a lane, on their way together
  const int64_t width = in.gradient.width;
  const int64_t end = EndOf(in.sorted, begin, in.gradient.count);
  for (int64_t base = Lane(); base - Lane() < width; base += kColumns * kWarp) {
    Accumulator<T> sums[kColumns] = {};
    for (int64_t i = begin; i < end; ++i) {
      const Accumulator<T>* value =
          in.gradient.values + in.sorted.order[i] * width;
      TF_HSM_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int64_t d = base + j * kWarp;
        if (d < width) sums[j] += value[d];
      }
    }
    TF_HSM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const int64_t d = base + j * kWarp;
      if (d < width) sum[d] = sums[j];
    }
  }
}

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
StepRows(StepArguments<T> in) {
  using A = Accumulator<T>;
  const int warps = NumThreads() / kWarp;
  const int64_t width = in.gradient.width;
  auto* sum =
      reinterpret_cast<A*>(SharedMemory() + WarpIndex() * SumBytes<A>(width));
  auto* terms = reinterpret_cast<RowTerms<A>*>(sum + width);
  for (int64_t i = BlockIndex() * warps + WarpIndex(); i < in.gradient.count;
       i += NumBlocks() * warps) {
    const auto row = static_cast<int64_t>(in.sorted.rows[i]);
    if (row == in.gradient.num_rows) break;  // the last ones
    if (i > 0 && in.sorted.rows[i - 1] == in.sorted.rows[i]) continue;
    SumValues(in, i, sum);
    SyncWarp();
    const RowSpan<A> span = {row, 0, 1, sum, width, nullptr};
    WithRule(in.out.update.rule, [&](auto rule) {
      UpdateRows<kWarp>(rule, in.out, span, static_cast<int>(width), terms);
    });
    SyncWarp();
  }
}

}  // namespace

int64_t SparseUpdateBytes(int64_t count, int64_t num_rows) {
  SortedRows unused;
  return LayOut(count, num_rows, nullptr, &unused);
}

template <typename T>
std::string SparseUpdate(const SparseGradient<T>& gradient,
                         const DeviceUpdate<T>& update, void* scratch,
                         void* stream) {
  const int64_t count = gradient.count, num_rows = gradient.num_rows;
  constexpr int64_t kMostNumbers = kMaxUpdatedRowBytes / sizeof(Accumulator<T>);
  if (gradient.width > kMostNumbers) {
    return "a row of the gradient has " + std::to_string(gradient.width) +
           " numbers, but may have at most " + std::to_string(kMostNumbers);
  }
  if (count > int64_t{1} << 30) {
    return "the gradient has " + std::to_string(count) +
           " rows, but may have at most 2^30";
  }
  if (count == 0 || gradient.width == 0) return "";
  const Launcher launcher(stream);
  StepArguments<T> in;
  LayOut(count, num_rows, scratch, &in.sorted);
  in.gradient = gradient;
  in.out = OutputTo(update, gradient.width);
  launcher.PerThread(FillKeys, count, gradient.rows, gradient.rows_are_int64,
                     count, num_rows, in.sorted);
  const std::string error = SortPairs(
      in.sorted.sort, &in.sorted.sort_bytes, in.sorted.keys, in.sorted.rows,
      in.sorted.given, in.sorted.order, count, BitsFor(num_rows), stream);
  if (!error.empty()) return error;
  const int64_t bytes = SumBytes<Accumulator<T>>(gradient.width);
  launcher.PerWarp(StepRows<T>, count, launcher.Warps(bytes), bytes, in);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(SparseUpdate, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
