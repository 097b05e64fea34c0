// What a GPU can do, measured: rates of memory and of products, for floors.

#ifndef TF_HSM_BENCHMARKS_GPU_RATES_H_
#define TF_HSM_BENCHMARKS_GPU_RATES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cc/cuda/device/device_array.h"
#include "cc/cuda/device/mma.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kThreads = 256;

// The time of `work` in ms, on the device.
template <typename Work>
double Milliseconds(const Work& work) {
#ifdef __CUDACC__
  cudaEvent_t begin, end;
  CheckCuda(cudaEventCreate(&begin), "cudaEventCreate");
  CheckCuda(cudaEventCreate(&end), "cudaEventCreate");
  CheckCuda(cudaEventRecord(begin), "cudaEventRecord");
  work();
  CheckCuda(cudaEventRecord(end), "cudaEventRecord");
  CheckCuda(cudaEventSynchronize(end), "a kernel");
  float time = 0;
  CheckCuda(cudaEventElapsedTime(&time, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return time;
#else
  const auto begin = std::chrono::steady_clock::now();
  work();
  const auto end = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::milli>(end - begin).count();
#endif
}

// Several calls are enqueued between two events, so that the host is ahead of
// the device as it is in training: else a short call would be timed with the
// launches that the device waits for.
constexpr int kCallsBetweenEvents = 8;

template <typename Work>
double Median(int runs, const Work& work) {
  const int calls = runs > 1 ? kCallsBetweenEvents : 1;
  std::vector<double> times;
  int call = 0;
  for (int i = -2; i < runs; ++i) {
    const double time = Milliseconds([&] {
      for (int c = 0; c < calls; ++c) work(call++);
    });
    if (i >= 0) times.push_back(time / calls);
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[runs / 2];
}

// Sixteen bytes that are read and written at once.
struct alignas(16) Words {
  uint32_t words[4];
};

TF_HSM_KERNEL(kThreads)
CopyWords(const Words* from, int64_t count, Words* to) {
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < count;
       i += NumBlocks() * NumThreads()) {
    to[i] = from[i];
  }
}

TF_HSM_KERNEL(kThreads)
ReadWords(const Words* from, int64_t count, uint32_t* result) {
  uint32_t all = 0;
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < count;
       i += NumBlocks() * NumThreads()) {
    const Words words = from[i];
    all |= words.words[0] | words.words[1] | words.words[2] | words.words[3];
  }
  if (all == 0x12345678) *result = all;  // so that the reads are made
}

// Eight independent chains of multiply-adds per thread.
TF_HSM_KERNEL(kThreads)
MultiplyAdd(int steps, float factor, float* result) {
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = static_cast<float>(ThreadIndex() + i);
  for (int s = 0; s < steps; ++s) {
    TF_HSM_UNROLL
    for (int i = 0; i < 8; ++i) sums[i] = sums[i] * factor + 1;
  }
  float all = 0;
  for (int i = 0; i < 8; ++i) all += sums[i];
  if (all == 0) *result = all;
}

// Eight independent chains of matrix instructions per warp.
template <typename T>
TF_HSM_KERNEL(kThreads)
MultiplyMatrices(int steps, uint32_t word, float* result) {
  const uint32_t a[4] = {word, word, word, word}, b[2] = {word, word};
  float sums[8][4] = {};
  for (int s = 0; s < steps; ++s) {
    TF_HSM_UNROLL
    for (int i = 0; i < 8; ++i) Mma<T>(sums[i], a, b);
  }
  float all = 0;
  for (int i = 0; i < 8; ++i) all += sums[i][0] + sums[i][1];
  if (all == 1) *result = all;
}

int64_t FullGrid() { return int64_t{CurrentDevice().num_processors} * 8; }

// Bytes and operations per ms.
struct Rates {
  double read, copy, float32, tf32, bfloat16;
};

Rates MeasureRates(bool tiny) {
  const int64_t words = tiny ? 1 << 12 : int64_t{1} << 27;  // 2 GB
  const int steps = tiny ? 4 : 20000;
  const int runs = tiny ? 1 : 9;
  DeviceArray<Words> from(words), to(words);
  DeviceArray<float> result(1);
  const int64_t grid = tiny ? 2 : FullGrid();
  const double bytes = 16.0 * words;
  const double threads = static_cast<double>(grid) * kThreads;
  Rates rates;
  rates.read = bytes / Median(runs, [&](int) {
                 Launch(ReadWords, grid, kThreads, 0, nullptr, from.data(),
                        words, reinterpret_cast<uint32_t*>(result.data()));
               });
  rates.copy = 2 * bytes / Median(runs, [&](int) {
                 Launch(CopyWords, grid, kThreads, 0, nullptr, from.data(),
                        words, to.data());
               });
  rates.float32 = threads * steps * 16 / Median(runs, [&](int) {
                    Launch(MultiplyAdd, grid, kThreads, 0, nullptr, steps, 0.5f,
                           result.data());
                  });
  const double products = threads / kWarp * steps * 8 * 2 * 16 * 8;
  rates.tf32 = products * 8 / Median(runs, [&](int) {
                 Launch(MultiplyMatrices<float>, grid, kThreads, 0, nullptr,
                        steps, 0x3f800000u, result.data());
               });
  rates.bfloat16 = products * 16 / Median(runs, [&](int) {
                     Launch(MultiplyMatrices<bfloat16>, grid, kThreads, 0,
                            nullptr, steps, 0x3f803f80u, result.data());
                   });
  return rates;
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_GPU_RATES_H_
