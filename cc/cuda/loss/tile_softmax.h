// The softmax of a tile of logits of LargeForward, or their sigmoids in a label
// tree, by all threads of a block.

#ifndef TF_HSM_CC_CUDA_LOSS_TILE_SOFTMAX_H_
#define TF_HSM_CC_CUDA_LOSS_TILE_SOFTMAX_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cc/cuda/tile/buffers.h"
#include "cc/cuda/tile/product.h"

namespace tf_hsm::gpu {

constexpr int kMaxStages = 4;  // row tiles on their way or in use

template <typename T>
struct LargeArguments {
  const T* weights;
  const T* biases;
  int64_t width;
  Slabs slabs;
  int weight_bytes;  // of a copy, see CopyBytes
  int input_bytes;
  int64_t shared_bytes;  // of a block of the forward
  Buffers<T> buffers;
};

// The beginning of the shared memory of a block of the forward. The inputs are
// behind it, then tiles of weights.
template <typename A>
struct alignas(16) ForwardTerms {
  A z[kTile * kCoefficientStride];  // [rows, examples]
  A max[kTile];                     // of an example
  A sum[kTile];
  A factor[kTile];
};

// Shared memory of a block of the forward with so many row tiles, besides all
// 32 examples.
template <typename Product>
TF_HSM_HOST_DEVICE int64_t ForwardSharedBytes(int columns, int stages) {
  return stages * TileBytes<typename Product::Weight>(columns) +
         TileBytes<typename Product::Input>(columns) +
         sizeof(ForwardTerms<typename Product::A>);
}

// Turns z in the terms into exp(z - m), times the slope of a soft cap, tile
// after tile of an item, and keeps m and s of all tiles so far. If there are up
// to 8 examples, 32 lanes have one; if up to 16, 16 lanes; else 8. A lane reads
// and writes its own rows alone.
//
// With sigmoids, z becomes dz = p - [row is positive], which is kept, s is the
// sum of the losses of the rows, and there is no m. Tiles come in their order.
template <typename Product, bool sigmoids>
class TileSoftmax {
 public:
  using T = typename Product::Weight;
  using A = typename Product::A;
  using Terms = ForwardTerms<A>;
  // Those of the thread's rows.
  using Biases = T[kTile / 8];  // as stored: to widen them is to wait

  // Writes target logits, and what is kept of each logit, if it `writes`.
  TF_HSM_DEVICE TileSoftmax(const LargeArguments<T>& in, const DeviceNode& node,
                            const Item& item, bool writes)
      : in_(in), node_(node), item_(item) {
    int own_example = 0;
    WithLanes([&](auto lanes) {
      own_example = ThreadIndex() / decltype(lanes)::value;
    });
    if (own_example >= item.num_examples) return;
    const Buffers<T>& out = in.buffers;
    const int example = item.example + own_example;
    const int64_t pass = out.plan.Pass(node.level, node.begin + example);
    if constexpr (sigmoids) {
      positive_ = out.visits.positive_starts[pass];
      last_positive_ = out.visits.positive_starts[pass + 1];
    }
    if (!writes) return;
    if constexpr (!sigmoids) {
      const int64_t target =
          out.plan.path_rows[pass] - node.first_row - item.row;
      if (target >= 0 && target < item.num_rows) {
        target_ = static_cast<int>(target);
        target_logit_ = out.target_logits + pass;
      }
    }
    if (node.Keeps(example)) {
      logits_ = out.logits + node.logits_offset +
                int64_t{example} * node.logits_stride() + item.row;
    }
  }

  // Loads the biases of a tile, which are on their way while its logits are
  // made; zeros unless they are `wanted`. `row` is the tile's first one.
  TF_HSM_DEVICE void Load(int row, bool wanted, Biases& biases) const {
    WithLanes([&](auto lanes) {
      LoadBiases<decltype(lanes)::value>(row, wanted, biases);
    });
  }

  // Between two barriers. Leaves in the terms also the factors by which what
  // was summed before is out.
  TF_HSM_DEVICE void Run(int row, const Parts& parts, const Biases& biases,
                         Terms& terms) {
    WithLanes([&](auto lanes) {
      OnLanes<decltype(lanes)::value>(row, parts, biases, terms);
    });
  }

 private:
  template <typename Use>
  TF_HSM_DEVICE void WithLanes(const Use& use) const {
    if (item_.num_examples <= 8) return use(std::integral_constant<int, 32>());
    if (item_.num_examples <= 16) return use(std::integral_constant<int, 16>());
    use(std::integral_constant<int, 8>());
  }

  // Whether the warp has an example.
  template <int lanes>
  TF_HSM_DEVICE bool HasExamples() const {
    return WarpIndex() * (kWarp / lanes) < item_.num_examples;
  }

  template <int lanes>
  TF_HSM_DEVICE void LoadBiases(int row, bool wanted, Biases& biases) const {
    const int64_t first = node_.first_row + item_.row + row;
    wanted = wanted && HasExamples<lanes>() && in_.biases != nullptr;
    TF_HSM_UNROLL
    for (int i = 0; i < kTile / lanes; ++i) {
      const int r = ThreadIndex() % lanes + lanes * i;
      biases[i] =
          wanted && row + r < item_.num_rows ? in_.biases[first + r] : T{};
    }
  }

  // A bit for each positive row of the tile that begins at `row`.
  TF_HSM_DEVICE uint32_t FindPositives(int row) {
    const int32_t* positives = in_.buffers.visits.positives;
    const int first = static_cast<int>(item_.row) + row;
    uint32_t bits = 0;
    for (; positive_ < last_positive_; ++positive_) {
      const int place = positives[positive_] - first;
      if (place >= kTile) break;
      if (place >= 0) bits |= uint32_t{1} << place;
    }
    return bits;
  }

  template <int lanes>
  TF_HSM_DEVICE void OnLanes(int row, const Parts& parts, const Biases& biases,
                             Terms& terms) {
    if (!HasExamples<lanes>()) return;
    constexpr int kDown = lanes * kCoefficientStride;
    const int own_row = ThreadIndex() % lanes, own = ThreadIndex() / lanes;
    A* z_at = terms.z + own_row * kCoefficientStride + own;
    A z[kTile / lanes];
    TF_HSM_UNROLL
    for (int i = 0; i < kTile / lanes; ++i) {
      z[i] = z_at[i * kDown] + Widen(biases[i]);
      for (int e = parts.step(); e < parts.end; e += parts.step()) {
        z[i] += z_at[i * kDown + e];
      }
    }
    if constexpr (sigmoids) {
      MakeSigmoids<lanes>(row, z, terms);
    } else {
      MakeSoftmax<lanes>(row, z, terms);
    }
  }

  // What the thread's `z` become, from row own_row of the tile on.
  template <int lanes>
  TF_HSM_DEVICE void MakeSoftmax(int row, A* z, Terms& terms) const {
    constexpr int kOwnRows = kTile / lanes;
    const int own_row = ThreadIndex() % lanes, own = ThreadIndex() / lanes;
    const int rows = Smaller(kTile, item_.num_rows - row) - own_row;
    A* z_at = terms.z + own_row * kCoefficientStride + own;
    A max = -static_cast<A>(INFINITY);
    TF_HSM_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      z[i] = in_.buffers.soft_cap.Logit(z[i]);
      if (lanes * i >= rows) continue;
      const int r = row + own_row + lanes * i;
      max = Max(max, z[i]);
      if (r == target_) *target_logit_ = z[i];
      if (logits_ != nullptr) logits_[r] = z[i];
    }
    TF_HSM_UNROLL
    for (int n = lanes / 2; n > 0; n /= 2) max = Max(max, ShuffleXor(max, n));
    const A before = terms.max[own];
    const A now = Max(before, max);
    const A shift = Shift(now);
    A sum = 0;
    SyncWarp();  // the first lane writes the maximum that all have read
    TF_HSM_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      const A e = lanes * i < rows ? Product::Exp(z[i] - shift) : A(0);
      sum += e;
      z_at[i * lanes * kCoefficientStride] = e *
                                             in_.buffers.soft_cap.Slope(z[i]) *
                                             CoefficientScale<Product>::value;
    }
    sum = SumOfLanes<lanes>(sum);
    const A factor = Exp(before - shift);
    if (own_row == 0) {
      terms.factor[own] = factor;
      terms.sum[own] = terms.sum[own] * factor + sum;
      terms.max[own] = now;
    }
  }

  template <int lanes>
  TF_HSM_DEVICE void MakeSigmoids(int row, const A* z, Terms& terms) {
    const int own_row = ThreadIndex() % lanes, own = ThreadIndex() / lanes;
    const int rows = Smaller(kTile, item_.num_rows - row) - own_row;
    const uint32_t positives = FindPositives(row) >> own_row;
    A* z_at = terms.z + own_row * kCoefficientStride + own;
    A sum = 0;
    TF_HSM_UNROLL
    for (int i = 0; i < kTile / lanes; ++i) {
      A dz = 0;
      if (lanes * i < rows) {
        const bool positive = (positives >> (lanes * i) & 1) != 0;
        sum += Sigmoid(positive ? -z[i] : z[i], &dz);
        if (positive) dz = -dz;
        if (logits_ != nullptr) logits_[row + own_row + lanes * i] = dz;
      }
      z_at[i * lanes * kCoefficientStride] =
          dz * CoefficientScale<Product>::value;
    }
    sum = SumOfLanes<lanes>(sum);
    if (own_row == 0) terms.sum[own] += sum;
  }

  template <int lanes>
  TF_HSM_DEVICE static A SumOfLanes(A sum) {
    TF_HSM_UNROLL
    for (int n = lanes / 2; n > 0; n /= 2) sum += ShuffleXor(sum, n);
    return sum;
  }

  const LargeArguments<T>& in_;
  const DeviceNode& node_;
  const Item& item_;
  // The thread's example has these.
  A* target_logit_ = nullptr;  // null: not here
  int target_ = -1;            // the row on the path, counted in the item
  A* logits_ = nullptr;        // where the item's rows keep them; or null
  // Its positive rows from the next tile on: places in the list.
  int32_t positive_ = 0;
  int32_t last_positive_ = 0;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_LOSS_TILE_SOFTMAX_H_
