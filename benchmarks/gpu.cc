// Times the GPU kernels against floors that are measured in the same run,
// without TensorFlow:
//
//   nvcc -std=c++17 -O3 -arch=native -I. -x cu benchmarks/gpu.cc
//       benchmarks/core_tree.cc cc/core/cuda/*.cu -o gpu_benchmark
//   ./gpu_benchmark [workload ...]
//
// For each workload, element type and precision: forward, forward with dx and
// backward, and a step in place with SGD; the median of runs between events, in
// ms, and that over the floor. Each run takes other labels and inputs than the
// one before, so that no run finds its weights in the cache of the last.
//
//   floor(forward)   sum over levels of max(2 S D / F, U D s / R) + B D s / R
//   floor(gradients) sum over levels of max(6 S D / F, 2 U D s / C) + ...
//   floor(step)      the same, with every touched row read and written once
//
// with S logits and U touched rows of the level, s bytes of a weight, R and C
// the measured rates of reading and of copying, F the rate of products. F is
// that of instructions on registers, without any memory: no product of matrices
// reaches it. `--tiny` runs small stand-ins, for a test without a GPU.

#include "cc/core/cuda/gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/core_tree.h"
#include "cc/core/cuda/device_array.h"
#include "cc/core/cuda/mma.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kSets = 5;   // of labels and inputs
constexpr int kRuns = 21;  // after two that are not counted

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

template <typename Work>
double Median(int runs, const Work& work) {
  std::vector<double> times;
  for (int i = -2; i < runs; ++i) {
    const double time = Milliseconds([&] { work(i + 2); });
    if (i >= 0) times.push_back(time);
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

// Uniform in [-scale, scale), by the finalizer of MurmurHash3.
template <typename T>
TF_HSM_KERNEL(kThreads)
FillRandom(T* values, int64_t count, uint32_t seed, float scale) {
  for (int64_t i = BlockIndex() * NumThreads() + ThreadIndex(); i < count;
       i += NumBlocks() * NumThreads()) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9e3779b9u + seed +
                 static_cast<uint32_t>(i >> 32);
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h ^= h >> 16;
    values[i] = Narrow<T>((static_cast<float>(h >> 8) * 0x1p-23f - 1) * scale);
  }
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

struct Workload {
  const char* name;
  int64_t classes;
  int64_t width;
  int64_t size;
  bool binary;
  bool zipf;
};

// Logits and touched rows of each level of a batch.
struct LevelCounts {
  std::vector<double> logits, rows;
};

LevelCounts CountLevels(const TreeView& tree,
                        const std::vector<int64_t>& labels) {
  LevelCounts counts;
  std::vector<std::set<int64_t>> groups;
  std::vector<int64_t> path;
  for (int64_t label : labels) {
    path.clear();
    for (int64_t row = tree.class_rows[label]; row >= 0;
         row = tree.group_parents[path.back()]) {
      path.push_back(tree.row_groups[row]);
    }
    std::reverse(path.begin(), path.end());
    if (path.size() > groups.size()) {
      groups.resize(path.size());
      counts.logits.resize(path.size());
      counts.rows.resize(path.size());
    }
    for (size_t level = 0; level < path.size(); ++level) {
      const int64_t g = path[level];
      const double fanout = tree.group_offsets[g + 1] - tree.group_offsets[g];
      counts.logits[level] += fanout;
      if (groups[level].insert(g).second) counts.rows[level] += fanout;
    }
  }
  return counts;
}

template <typename T>
void Time(const Workload& load, Precision precision, const EvenTree& even,
          const Rates& rates, bool tiny) {
  using A = Accumulator<T>;
  const TreeView host = even.view();
  const DeviceArray<int64_t> offsets(even.group_offsets),
      parents(even.group_parents), class_rows(even.class_rows),
      row_groups(even.row_groups), ranks(even.class_ranks);
  Batch<T> batch;
  batch.tree = host;
  batch.tree.group_offsets = offsets.data();
  batch.tree.group_parents = parents.data();
  batch.tree.class_rows = class_rows.data();
  batch.tree.row_groups = row_groups.data();
  batch.tree.class_ranks = ranks.data();
  batch.shape = DescribeTree(host);
  batch.width = load.width;
  batch.size = load.size;
  batch.precision = precision;
  const int64_t count = host.num_rows * load.width;
  DeviceArray<T> weights(count), biases(host.num_rows);
  const int64_t grid = tiny ? 1 : FullGrid();
  Launch(FillRandom<T>, grid, kThreads, 0, nullptr, weights.data(), count, 1u,
         0.05f);
  Launch(FillRandom<T>, grid, kThreads, 0, nullptr, biases.data(),
         host.num_rows, 2u, 0.05f);
  batch.weights = weights.data();
  batch.biases = biases.data();
  const Labels labels(load.classes, load.zipf);
  const int64_t inputs = load.size * load.width;
  DeviceArray<float> x(inputs * kSets);
  Launch(FillRandom<float>, grid, kThreads, 0, nullptr, x.data(),
         inputs * kSets, 3u, 1.0f);
  std::vector<int64_t> drawn;
  LevelCounts levels;
  for (int set = 0; set < kSets; ++set) {
    const std::vector<int64_t> one = labels.Draw(load.size, set);
    if (set == 0) levels = CountLevels(host, one);
    drawn.insert(drawn.end(), one.begin(), one.end());
  }
  const DeviceArray<int64_t> device_labels(drawn);
  const DeviceArray<A> grads(std::vector<A>(load.size, A(1e-6)));
  const DeviceArray<A> loss(load.size), dx(inputs);
  const int64_t logits_bytes = int64_t{1} << 30;
  const MemorySizes sizes = SizesOf(batch, logits_bytes);
  const DeviceBlock state(sizes.state), scratch(sizes.scratch);
  const Memory memory = {state.data(), scratch.data(), logits_bytes};
  double touched = 0, logits = 0;
  for (double rows : levels.rows) touched += rows;
  for (double z : levels.logits) logits += z;
  // Other sets of labels touch a few more rows.
  const int64_t capacity = Smaller<int64_t>(
      MaxTouchedRows(batch), static_cast<int64_t>(touched * 1.1) + 10000);
  DeviceArray<int64_t> rows(capacity);
  DeviceArray<T> dw(capacity * load.width), db(capacity);
  Update<T> update;
  update.hyper.learning_rate = 1e-3;
  update.weights = weights.data();
  update.biases = biases.data();

  std::string error;
  auto use = [&](int run) {
    batch.labels = device_labels.data() + run % kSets * load.size;
    batch.inputs = x.data() + run % kSets * inputs;
  };
  auto check = [&](const std::string& result) {
    if (error.empty()) error = result;
  };
  const int runs = tiny ? 1 : kRuns;
  const double forward = Median(runs, [&](int run) {
    use(run);
    check(Forward<T>(batch, memory, {loss.data(), nullptr, nullptr}, nullptr));
  });
  const double gradients = Median(runs, [&](int run) {
    use(run);
    check(
        Forward<T>(batch, memory, {loss.data(), dx.data(), nullptr}, nullptr));
    check(Backward<T>(batch, memory, grads.data(),
                      {capacity, rows.data(), dw.data(), db.data()}, nullptr));
  });
  const double step = Median(runs, [&](int run) {
    use(run);
    check(Forward<T>(batch, memory, {loss.data(), dx.data(), grads.data()},
                     nullptr));
    check(ApplyUpdate(batch, memory, grads.data(), update, nullptr));
  });

  const bool exact = precision == Precision::kExact;
  const double flops = exact            ? rates.float32
                       : sizeof(T) == 4 ? rates.tf32
                                        : rates.bfloat16;
  const double x_bytes = 4.0 * inputs;
  double forward_floor = x_bytes / rates.read;
  double gradients_floor = 3 * x_bytes / rates.copy;
  for (size_t level = 0; level < levels.rows.size(); ++level) {
    const double work = 2 * levels.logits[level] * load.width / flops;
    const double bytes = levels.rows[level] * load.width * sizeof(T);
    forward_floor += std::max(work, bytes / rates.read);
    gradients_floor += std::max(3 * work, 2 * bytes / rates.copy);
  }
  std::printf(
      "%-9s %-8s %-7s %-8s %-6s %9.3f %5.2fx %9.3f %5.2fx %9.3f %5.2fx  %s\n",
      load.name, load.binary ? "binary" : "2-level",
      load.zipf ? "zipf" : "uniform", sizeof(T) == 4 ? "float32" : "bfloat16",
      exact ? "exact" : "mma", forward, forward / forward_floor, gradients,
      gradients / gradients_floor, step, step / gradients_floor, error.c_str());
  std::fflush(stdout);
}

void RunAll(bool tiny, const std::set<std::string>& wanted) {
  const Rates rates = MeasureRates(tiny);
  std::printf(
      "read %.0f GB/s, copy %.0f GB/s; TFLOP/s: float32 %.1f, tf32 "
      "%.0f, bfloat16 %.0f\n",
      rates.read / 1e6, rates.copy / 1e6, rates.float32 / 1e9, rates.tf32 / 1e9,
      rates.bfloat16 / 1e9);
  std::printf("%-9s %-8s %-7s %-8s %-6s %9s %6s %9s %6s %9s %6s\n", "workload",
              "tree", "labels", "weights", "", "forward", "/floor", "gradients",
              "/floor", "step", "/floor");
  std::vector<Workload> loads = {
      {"1m-b400", 1000000, 300, 400, false, false},
      {"1m-b400", 1000000, 300, 400, false, true},
      {"10m-b400", 10000000, 300, 400, false, false},
      {"10m-b400", 10000000, 300, 400, false, true},
      {"10m-b40k", 10000000, 300, 40000, false, false},
      {"10m-b40k", 10000000, 300, 40000, false, true},
      {"1bw", 793471, 512, 2560, false, true},
      {"text8", 44371, 512, 2560, false, true},
      {"deep", 1000000, 300, 8192, true, false},
      {"deep", 1000000, 300, 8192, true, true}};
  if (tiny) {
    loads = {{"tiny", 400, 12, 20, false, true},
             {"tiny", 100, 12, 20, true, false}};
  }
  for (const Workload& load : loads) {
    if (!wanted.empty() && wanted.count(load.name) == 0) continue;
    const EvenTree tree =
        MakeEvenTree(load.classes, load.binary ? LevelsOf(load.classes, 2)
                                               : TwoLevels(load.classes));
    Time<float>(load, Precision::kExact, tree, rates, tiny);
    Time<float>(load, Precision::kTensorCores, tree, rates, tiny);
    Time<bfloat16>(load, Precision::kTensorCores, tree, rates, tiny);
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

int main(int argc, char** argv) {
  bool tiny = false;
  std::set<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tiny") == 0) {
      tiny = true;
    } else {
      wanted.insert(argv[i]);
    }
  }
  tf_hsm::gpu::RunAll(tiny, wanted);
  return 0;
}
