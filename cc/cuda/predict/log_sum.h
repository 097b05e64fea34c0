// The log of a group's sum of exponentials, by one thread, a warp or a block.
//
// All of them add in one order, so that they give the same bits: 256 running
// sums, of the rows r, r + 256, ...; 32 neighbours of these by pairs; then
// these eight one after another.

#ifndef TF_HSM_CC_CUDA_PREDICT_LOG_SUM_H_
#define TF_HSM_CC_CUDA_PREDICT_LOG_SUM_H_

#include <cmath>
#include <cstdint>

#include "cc/cuda/device/convert.h"
#include "cc/cuda/device/device.h"

namespace tf_hsm::gpu {

// The log-probability of a logit z is z - shift - log_sum.
template <typename A>
struct LogSum {
  A shift;
  A log_sum;
};

// The most logits that a thread alone takes.
constexpr int kMaxThreadRows = 8;

// Numbers in shared memory that a block needs.
constexpr int kLogSumShared = kBlockThreads / kWarp;

template <typename A>
TF_HSM_DEVICE A WarpMax(A value) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = Max(value, ShuffleXor(value, lanes));
  }
  return value;
}

// The LogSum of z [count]. All threads of a team of 1, kWarp or kBlockThreads
// (the whole block) pass the same z. `shared` is for a block only.
template <int team, typename A>
TF_HSM_DEVICE LogSum<A> FindLogSum(const A* z, int64_t count, A* shared) {
  constexpr int kSums = kBlockThreads / kWarp;
  A max = -static_cast<A>(INFINITY);
  if constexpr (team == 1) {
    A values[kMaxThreadRows];
    TF_HSM_UNROLL
    for (int i = 0; i < kMaxThreadRows; ++i) {
      values[i] = i < count ? z[i] : -static_cast<A>(INFINITY);
      max = Max(max, values[i]);
    }
    const A shift = Shift(max);
    TF_HSM_UNROLL
    for (int i = 0; i < kMaxThreadRows; ++i) {
      values[i] = i < count ? Exp(values[i] - shift) : A(0);
    }
    TF_HSM_UNROLL
    for (int step = kMaxThreadRows / 2; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) values[i] += values[i + step];
    }
    return {shift, Log(values[0])};
  } else if constexpr (team == kWarp) {
    for (int64_t r = Lane(); r < count; r += kWarp) max = Max(max, z[r]);
    const A shift = Shift(WarpMax(max));
    A sum = 0;
    for (int64_t first = 0; first < Smaller<int64_t>(count, kBlockThreads);
         first += kWarp) {
      A part = 0;
      for (int64_t r = first + Lane(); r < count; r += kBlockThreads) {
        part += Exp(z[r] - shift);
      }
      sum += WarpSum(part);
    }
    return {shift, Log(sum)};
  } else {
    static_assert(team == kBlockThreads, "a thread, a warp or a block");
    for (int64_t r = ThreadIndex(); r < count; r += team) max = Max(max, z[r]);
    max = WarpMax(max);
    SyncBlock();  // what the last call left may still be read
    if (Lane() == 0) shared[WarpIndex()] = max;
    SyncBlock();
    for (int i = 0; i < kSums; ++i) max = Max(max, shared[i]);
    const A shift = Shift(max);
    A part = 0;
    for (int64_t r = ThreadIndex(); r < count; r += team) {
      part += Exp(z[r] - shift);
    }
    part = WarpSum(part);
    SyncBlock();
    if (Lane() == 0) shared[WarpIndex()] = part;
    SyncBlock();
    A sum = 0;
    for (int i = 0; i < kSums; ++i) sum += shared[i];
    return {shift, Log(sum)};
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_PREDICT_LOG_SUM_H_
