// Times the GPU kernels against floors that are measured in the same run,
// without TensorFlow:
//
//   nvcc -std=c++17 -O3 -arch=native -I. -x cu benchmarks/gpu/main.cc
//       benchmarks/gpu/tree.cc $(find cc/cuda -name '*.cu') -o gpu_benchmark
//   ./gpu_benchmark [--csv=FILE] [--runs=N] [--logits_mb=N] [WORD ...]
//
// A WORD is a workload, a kind of tree or of labels, a precision or a step, as
// the lines of FILE have them: `10m-b40k zipf step` times no other workload,
// labels or step.
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
// reaches it. Behind them is the memory in GB that a step needs beside the
// parameters, the inputs and their gradients, up to `--logits_mb` (1024) of it
// for logits that the backward reads. `--tiny` runs small stand-ins, for a test
// without a GPU. The lines of FILE:
// workload,tree,labels,precision,step,ms,floor_ms. A line that needs more
// memory than the GPU has is skipped. The exit status is 1 after an error of a
// kernel.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/gpu/options.h"
#include "benchmarks/gpu/rates.h"
#include "benchmarks/gpu/workloads.h"
#include "cc/cuda/api/gpu.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kSets = 5;  // of labels and inputs

int num_failed = 0;  // lines with an error

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

template <typename T>
void Time(const Workload& load, Precision precision, const EvenTree& even,
          const Rates& rates, const Options& options) {
  using A = Accumulator<T>;
  const bool tiny = options.tiny;
  // Figures with other room for logits have a name of their own.
  const std::string name =
      options.logits_mb == kLogitsMb
          ? load.name
          : load.name + "@" + std::to_string(options.logits_mb);
  const std::string precision_name = sizeof(T) == 2 ? "bfloat16"
                                     : precision == Precision::kExact
                                         ? "float32"
                                         : "tf32";
  if (!options.Wants(precision_name, kPrecisions)) return;
  TreeView host = even.view();
  host.pinned = load.tree == "pinned";
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
  const int64_t num_rows = host.num_weight_rows();
  const int64_t count = num_rows * load.width;
  const Labels labels(load.classes, load.zipf);
  const int64_t inputs = load.size * load.width;
  std::vector<int64_t> drawn;
  LevelCounts levels;
  for (int set = 0; set < kSets; ++set) {
    const std::vector<int64_t> one = labels.Draw(load.size, set);
    if (set == 0) levels = CountLevels(host, one);
    drawn.insert(drawn.end(), one.begin(), one.end());
  }
  double touched = 0;
  for (double rows : levels.rows) touched += rows;
  // Other sets of labels touch a few more rows. Only gradients need them.
  const int64_t capacity =
      options.Wants("forward_backward", kSteps)
          ? Smaller<int64_t>(MaxTouchedRows(batch),
                             static_cast<int64_t>(touched * 1.1) + 10000)
          : 0;
  const int64_t logits_bytes = options.logits_mb << 20;
  const MemorySizes sizes = SizesOf(batch, logits_bytes);
  const int64_t bytes =
      (num_rows + capacity) * (load.width + 1) * sizeof(T) +
      capacity * sizeof(int64_t) + (kSets + 1) * inputs * sizeof(float) +
      kSets * load.size * sizeof(int64_t) + sizes.state + sizes.scratch();
  const char* labels_name = load.zipf ? "zipf" : "uniform";
  if (bytes > FreeBytes()) {
    std::printf("%-9s %-8s %-7s %-8s skipped: needs %.1f GB of memory\n",
                name.c_str(), load.tree.c_str(), labels_name,
                precision_name.c_str(), static_cast<double>(bytes) * 1e-9);
    std::fflush(stdout);
    return;
  }

  DeviceArray<T> weights(count), biases(num_rows);
  const int64_t grid = tiny ? 1 : FullGrid();
  Launch(FillRandom<T>, grid, kThreads, 0, nullptr, weights.data(), count, 1u,
         0.05f);
  Launch(FillRandom<T>, grid, kThreads, 0, nullptr, biases.data(), num_rows, 2u,
         0.05f);
  batch.weights = weights.data();
  batch.biases = biases.data();
  DeviceArray<float> x(inputs * kSets);
  Launch(FillRandom<float>, grid, kThreads, 0, nullptr, x.data(),
         inputs * kSets, 3u, 1.0f);
  const DeviceArray<int64_t> device_labels(drawn);
  const DeviceArray<A> grads(std::vector<A>(load.size, A(1e-6)));
  const DeviceArray<A> loss(load.size), dx(inputs);
  const DeviceBlock state(sizes.state), scratch(sizes.scratch());
  const Memory memory = {state.data(), scratch.data(), logits_bytes};
  DeviceArray<int64_t> rows(capacity);
  DeviceArray<T> dw(capacity * load.width), db(capacity);
  const DeviceArray<Hyperparameters> hyper({Hyperparameters{1e-3}});
  DeviceUpdate<T> update;
  update.hyper = hyper.data();
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
  auto time = [&](const char* step, auto run) {
    return options.Wants(step, kSteps) ? Median(options.runs, run)
                                       : static_cast<double>(NAN);
  };
  const double forward = time("forward", [&](int run) {
    use(run);
    check(Forward<T>(batch, memory, {loss.data(), nullptr, nullptr}, nullptr));
  });
  const double gradients = time("forward_backward", [&](int run) {
    use(run);
    check(
        Forward<T>(batch, memory, {loss.data(), dx.data(), nullptr}, nullptr));
    check(Backward<T>(batch, memory, grads.data(),
                      {capacity, rows.data(), dw.data(), db.data()}, nullptr));
  });
  const double step = time("step", [&](int run) {
    use(run);
    check(TrainStep<T>(batch, memory, {loss.data(), dx.data(), grads.data()},
                       grads.data(), update, nullptr));
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
      "%-9s %-8s %-7s %-8s %-6s %9.3f %5.2fx %9.3f %5.2fx %9.3f %5.2fx %7.3f  "
      "%s\n",
      name.c_str(), load.tree.c_str(), labels_name,
      sizeof(T) == 4 ? "float32" : "bfloat16", exact ? "exact" : "mma", forward,
      forward / forward_floor, gradients, gradients / gradients_floor, step,
      step / gradients_floor,
      static_cast<double>(sizes.state + sizes.scratch()) * 1e-9, error.c_str());
  std::fflush(stdout);
  if (!error.empty()) ++num_failed;
  if (options.csv == nullptr || !error.empty()) return;
  auto write = [&](const char* step_name, double ms, double floor) {
    if (std::isnan(ms)) return;
    std::fprintf(options.csv, "%s,%s,%s,%s,%s,%.6g,%.6g\n", name.c_str(),
                 load.tree.c_str(), labels_name, precision_name.c_str(),
                 step_name, ms, floor);
  };
  write("forward", forward, forward_floor);
  write("forward_backward", gradients, gradients_floor);
  write("step", step, gradients_floor);
  std::fflush(options.csv);
}

void RunAll(const Options& options) {
  const Rates rates = MeasureRates(options.tiny);
  std::printf(
      "read %.0f GB/s, copy %.0f GB/s; TFLOP/s: float32 %.1f, tf32 "
      "%.0f, bfloat16 %.0f\n",
      rates.read / 1e6, rates.copy / 1e6, rates.float32 / 1e9, rates.tf32 / 1e9,
      rates.bfloat16 / 1e9);
  std::printf("%-9s %-8s %-7s %-8s %-6s %9s %6s %9s %6s %9s %6s %7s\n",
              "workload", "tree", "labels", "weights", "", "forward", "/floor",
              "gradients", "/floor", "step", "/floor", "GB");
  std::fflush(stdout);
  if (options.csv != nullptr) {
    std::fprintf(options.csv,
                 "workload,tree,labels,precision,step,ms,floor_ms\n");
  }
  for (const Workload& load : Workloads(options.tiny)) {
    if (!options.Wants(load.name, WorkloadNames(options.tiny)) ||
        !options.Wants(load.tree, kTrees) ||
        !options.Wants(load.zipf ? "zipf" : "uniform", kLabels)) {
      continue;
    }
    const EvenTree tree = MakeTree(load);
    Time<float>(load, Precision::kExact, tree, rates, options);
    Time<float>(load, Precision::kTensorCores, tree, rates, options);
    Time<bfloat16>(load, Precision::kTensorCores, tree, rates, options);
  }
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

int main(int argc, char** argv) {
  const tf_hsm::gpu::Options options = tf_hsm::gpu::ReadOptions(argc, argv);
  tf_hsm::gpu::RunAll(options);
  if (options.csv != nullptr && std::fclose(options.csv) != 0) {
    std::perror("--csv");
    return EXIT_FAILURE;
  }
  return tf_hsm::gpu::num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
