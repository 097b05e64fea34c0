// A step of a rule on neighbouring rows, in place.
//
// The rules are those of cc/core/update/rules.h. A step costs one read and one
// write of the rows and of their slots, and a multiprocessor of a GPU that
// reads 4 TB/s needs about 23 KB on their way at any time. So every thread asks
// for all numbers of a batch before it computes with the first: for 128 bytes
// or more, which is 32 KB for the 256 threads of a block, in accesses of 16
// bytes where rows allow it. What a row becomes depends on its own gradient
// only.

#ifndef TF_HSM_CC_CUDA_TILE_ROW_UPDATE_H_
#define TF_HSM_CC_CUDA_TILE_ROW_UPDATE_H_

#include <cstdint>

#include "cc/core/update/rules.h"
#include "cc/cuda/api/gpu.h"
#include "cc/cuda/device/convert.h"
#include "cc/cuda/tile/row_piece.h"
#include "cc/cuda/tile/row_span.h"

namespace tf_hsm::gpu {

// What a RuleStep computes with.
template <typename A>
struct DeviceMath {
  using Scalar = A;
  using Number = A;
  TF_HSM_HOST_DEVICE static A Sqrt(A value) { return gpu::Sqrt(value); }
};

// What is the same for all numbers of a row.
template <typename A>
struct RowTerms {
  A rate;
  uint32_t random;  // counter of the first number, for stochastic rounding
};

// One step of a rule by `threads` threads that work together, each with up to
// so many pieces at once.
template <UpdateRule rule, bool stochastic, int threads, int pieces, typename T>
class RowUpdate {
 public:
  using A = Accumulator<T>;

  // `terms` [rows.count] are in memory that the threads share. There are at
  // least as many threads as rows.
  TF_HSM_DEVICE RowUpdate(const DeviceUpdate<T>& update, const RowSpan<A>& rows,
                          int width, RowTerms<A>* terms)
      : update_(update),
        rows_(rows),
        width_(width),
        terms_(terms),
        step_(*update.hyper),
        seed_(stochastic ? *update.seed : 0) {}

  // By `length` neighbours at once, to which the width and all addresses are
  // aligned.
  template <int length>
  TF_HSM_DEVICE void Run() {
    Bias bias = LoadBias();  // on its way while the weights are
    if constexpr (kHasTerms) MakeTerms();
    UpdateWeights<length>();
    UpdateBias(bias);
  }

 private:
  using Members = Team<threads>;
  static constexpr UpdateRule kBiasRule = BiasRule(rule);
  static constexpr int kBiasSlots = RuleConstant<kBiasRule>::number_slots;
  static constexpr int kSlots = RuleConstant<rule>::number_slots;
  static constexpr bool kRates = RuleConstant<rule>::row_slots > 0;
  static constexpr bool kHasTerms = kRates || stochastic;

  static constexpr int kMostBytes = 16 * pieces;  // of a batch of a thread

  TF_HSM_DEVICE void MakeTerms() {
    const int k = Members::Rank();
    const int64_t row = rows_.first + k;
    A slots[1] = {};
    if constexpr (kRates) {
      if (k < rows_.count) slots[0] = update_.weight_slots[0][row];
      for (int r = Members::Rank() / kWarp; r < rows_.count;
           r += threads / kWarp) {
        const A* g = rows_.dw + r * rows_.stride;
        A squares = 0;
        for (int d = Lane(); d < width_; d += kWarp) squares += g[d] * g[d];
        squares = WarpSum(squares);
        if (Lane() == 0) terms_[r].rate = squares / static_cast<A>(width_);
      }
      Members::Sync();
    }
    if (k < rows_.count) {
      RowTerms<A> own = {step_.rate, 0};
      if constexpr (kRates) {
        own.rate = step_.template RowRate<rule>(terms_[k].rate, slots);
        update_.weight_slots[0][row] = slots[0];
      }
      if (stochastic) own.random = WeightCounter(seed_, row);
      terms_[k] = own;
    }
    Members::Sync();
  }

  // The bias of a row and its slots, a member's own.
  struct Bias {
    RowPiece<T, 1> value;
    A slots[kMaxSlots];
  };

  TF_HSM_DEVICE bool HasBias() const {
    return update_.biases != nullptr && Members::Rank() < rows_.count;
  }
  TF_HSM_DEVICE RowPiece<T, 1>* BiasAt(int64_t row) const {
    return InPieces<RowPiece<T, 1>>(update_.biases + row);
  }

  TF_HSM_DEVICE Bias LoadBias() const {
    Bias own = {};
    if (!HasBias()) return own;
    const int64_t row = rows_.first + Members::Rank();
    own.value = *BiasAt(row);
    TF_HSM_UNROLL
    for (int s = 0; s < kBiasSlots; ++s) {
      own.slots[s] = update_.bias_slots[s][row];
    }
    return own;
  }

  TF_HSM_DEVICE void UpdateBias(Bias& own) const {
    if (!HasBias()) return;
    const int k = Members::Rank();
    const int64_t row = rows_.first + k;
    A value[] = {own.value.Get(0) - step_.template Change<kBiasRule>(
                                        step_.rate, rows_.db[k], own.slots)};
    Decay(1, own.value, value);
    TF_HSM_UNROLL
    for (int s = 0; s < kBiasSlots; ++s) {
      update_.bias_slots[s][row] = own.slots[s];
    }
    own.value.template Set<stochastic>(
        value, BiasCounter(seed_) + static_cast<uint32_t>(row), 0);
    *BiasAt(row) = own.value;
  }

  template <int length>
  TF_HSM_DEVICE void UpdateWeights() const {
    constexpr int bytes = length * (sizeof(T) + kSlots * sizeof(A));
    constexpr int fit = kMostBytes / bytes;
    constexpr int batch = length == 1 ? 1 : fit < pieces ? fit : pieces;
    const int64_t start = rows_.first * width_;
    auto* weights = InPieces<RowPiece<T, length>>(update_.weights + start);
    Neighbours<A, length>* slots[kMaxSlots];
    TF_HSM_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      slots[s] =
          InPieces<Neighbours<A, length>>(update_.weight_slots[s] + start);
    }
    const int count = rows_.count * (width_ / length);
    RowCursor cursor(Members::Rank(), threads, length, width_, rows_.stride);
    for (int first = Members::Rank(); first < count; first += batch * threads) {
      // Without zeros, registers would be kept for what was there before.
      RowPiece<T, length> values[batch] = {};
      Neighbours<A, length> own[kMaxSlots][batch] = {};
      TF_HSM_UNROLL
      for (int i = 0; i < batch; ++i) {
        const int at = first + i * threads;
        if (at >= count) break;
        values[i] = weights[at];
        TF_HSM_UNROLL
        for (int s = 0; s < kSlots; ++s) own[s][i] = slots[s][at];
      }
      TF_HSM_UNROLL
      for (int i = 0; i < batch; ++i) {
        const int at = first + i * threads;
        if (at >= count) break;
        Step(cursor, &values[i], own, i);
        weights[at] = values[i];
        TF_HSM_UNROLL
        for (int s = 0; s < kSlots; ++s) slots[s][at] = own[s][i];
        cursor.Next();
      }
    }
  }

  // Takes the decay of weights (0) or biases (1) off what they become. It is
  // read again for each piece: few steps have one, and registers are short.
  template <int length>
  TF_HSM_DEVICE void Decay(int kind, const RowPiece<T, length>& before,
                           A (&values)[length]) const {
    if (update_.decays == nullptr) return;
    const A decay = static_cast<A>(update_.decays[kind]);
    if (decay == 0) return;  // of infinite numbers it would make NaN
    TF_HSM_UNROLL
    for (int j = 0; j < length; ++j) values[j] -= before.Get(j) * decay;
  }

  template <int length, int batch>
  TF_HSM_DEVICE void Step(const RowCursor& at, RowPiece<T, length>* piece,
                          Neighbours<A, length> (&slots)[kMaxSlots][batch],
                          int i) const {
    const auto g = *InPieces<Neighbours<A, length>>(rows_.dw + at.gradient());
    RowTerms<A> terms = {step_.rate, 0};
    if constexpr (kHasTerms) terms = terms_[at.row()];
    A values[length];
    TF_HSM_UNROLL
    for (int j = 0; j < length; ++j) {
      A own[kMaxSlots];
      TF_HSM_UNROLL
      for (int s = 0; s < kSlots; ++s) own[s] = slots[s][i].values[j];
      values[j] = piece->Get(j) -
                  step_.template Change<rule>(terms.rate, g.values[j], own);
      TF_HSM_UNROLL
      for (int s = 0; s < kSlots; ++s) slots[s][i].values[j] = own[s];
    }
    Decay(0, *piece, values);
    piece->template Set<stochastic>(values, terms.random, at.column());
  }

  const DeviceUpdate<T>& update_;
  const RowSpan<A>& rows_;
  const int width_;
  RowTerms<A>* const terms_;
  const RuleStep<DeviceMath<A>> step_;
  const uint64_t seed_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_TILE_ROW_UPDATE_H_
