// Where the gradients of touched rows go: out, at once into the rows, or to
// sums of several batches.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_
#define TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_

#include <cstdint>
#include <type_traits>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/tile/row_span.h"
#include "cc/cuda/tile/row_update.h"

namespace tf_hsm::gpu {

template <typename T>
struct RowOutput {
  RowGradients<T> gradients;
  DeviceUpdate<T> update;
  bool updates = false;
  bool in_fours = false;  // whether four neighbours are one access
  // [rows of the parameters, sums_stride], db behind dW; null: they go out.
  Accumulator<T>* sums = nullptr;
  int64_t sums_stride = 0;
};

template <typename T>
bool AllowsFours(const RowOutput<T>& out, int64_t width) {
  uint64_t bits = reinterpret_cast<uintptr_t>(out.gradients.dw) |
                  reinterpret_cast<uintptr_t>(out.update.weights);
  for (const auto* slot : out.update.weight_slots) {
    bits |= reinterpret_cast<uintptr_t>(slot);
  }
  return width % 4 == 0 && bits % 16 == 0;
}

template <typename T>
RowOutput<T> OutputTo(const RowGradients<T>& gradients, int64_t width) {
  RowOutput<T> out;
  out.gradients = gradients;
  out.in_fours = AllowsFours(out, width);
  return out;
}

template <typename T>
RowOutput<T> OutputTo(const DeviceUpdate<T>& update, int64_t width) {
  RowOutput<T> out;
  out.update = update;
  out.updates = true;
  out.in_fours = AllowsFours(out, width);
  return out;
}

template <int length, int threads, typename T>
TF_HSM_DEVICE void StoreRows(const RowGradients<T>& out,
                             const RowSpan<Accumulator<T>>& rows, int width) {
  using A = Accumulator<T>;
  const int fit =
      static_cast<int>(Smaller<int64_t>(rows.count, out.capacity - rows.index));
  auto* to = InPieces<RowPiece<T, length>>(out.dw + rows.index * width);
  RowCursor cursor(Team<threads>::Rank(), threads, length, width, rows.stride);
  for (int at = Team<threads>::Rank(); at < fit * (width / length);
       at += threads) {
    const auto g =
        *InPieces<Neighbours<A, length>>(rows.dw + cursor.gradient());
    to[at].template Set<false>(g.values, 0, 0);
    cursor.Next();
  }
  if (out.db == nullptr) return;
  for (int k = Team<threads>::Rank(); k < fit; k += threads) {
    out.db[rows.index + k] = Narrow<T>(rows.db[k]);
  }
}

// Leaves rows of a group that is cut as partial gradients, which MergeRows adds
// up: PartStride(width) apart. Or `adds` them to what is there.
template <int threads, bool adds = false, typename A>
TF_HSM_DEVICE void StoreParts(const RowSpan<A>& rows, int64_t width,
                              int64_t stride, A* parts) {
  for (int k = Team<threads>::Rank() / kWarp; k < rows.count;
       k += threads / kWarp) {
    const A* row = rows.dw + k * rows.stride;
    A* part = parts + k * stride;
    for (int64_t d = Lane(); d < width; d += kWarp) {
      part[d] = adds ? part[d] + row[d] : row[d];
    }
    if (Lane() == 0) part[width] = adds ? part[width] + rows.db[k] : rows.db[k];
  }
}

// A step of a rule, a RuleConstant, on rows; the rest as for EmitRows.
template <int threads, int pieces = 8, typename Rule, typename T>
TF_HSM_DEVICE void UpdateRows(Rule, const RowOutput<T>& out,
                              const RowSpan<Accumulator<T>>& rows, int width,
                              RowTerms<Accumulator<T>>* terms) {
  auto run = [&](auto stochastic) {
    RowUpdate<Rule::value, decltype(stochastic)::value, threads, pieces, T>
        update(out.update, rows, width, terms);
    return out.in_fours ? update.template Run<4>() : update.template Run<1>();
  };
  if constexpr (std::is_same_v<T, bfloat16>) {
    if (out.update.stochastic) return run(std::true_type());
  }
  run(std::false_type());
}

// Gives rows out, by `threads` threads that work together: a warp or a block.
// They have seen the gradients, and may change them after a barrier of theirs;
// `terms` [rows.count] is memory that they share until then. An update takes
// `pieces` of 16 bytes of a thread at once.
template <int threads, int pieces = 8, typename T>
TF_HSM_DEVICE void EmitRows(const RowOutput<T>& out,
                            const RowSpan<Accumulator<T>>& rows, int64_t width,
                            RowTerms<Accumulator<T>>* terms) {
  const int columns = static_cast<int>(width);
  if (out.sums != nullptr) {
    return StoreParts<threads, true>(rows, width, out.sums_stride,
                                     out.sums + rows.first * out.sums_stride);
  }
  if (!out.updates) {
    return out.in_fours ? StoreRows<4, threads>(out.gradients, rows, columns)
                        : StoreRows<1, threads>(out.gradients, rows, columns);
  }
  WithGpuRule(out.update.rule, [&](auto rule) {
    UpdateRows<threads, pieces>(rule, out, rows, columns, terms);
  });
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_ROW_OUTPUT_H_
