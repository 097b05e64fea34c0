// How fast is cc/core without TensorFlow, beside what the machine can do?
//
//     bazel run -c opt //benchmarks:core
//     bazel run -c opt //benchmarks:core -- --fanout=2 --batch=8192
//
// Every turn has fresh labels, the same for all; figures are medians over the
// turns. benchmarks/README.md says what is counted.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/core/flags.h"
#include "benchmarks/core/memory.h"
#include "benchmarks/core/rates.h"
#include "benchmarks/core/steps.h"
#include "benchmarks/core/threads.h"
#include "benchmarks/core/tree.h"

namespace tf_hsm {
namespace {

// What the rows of the tables are, in their order.
struct Config {
  Isa isa;
  int64_t threads;
  bool huge_pages;
};

std::string FirstMatch(const char* path, const std::string& begin) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, begin.size(), begin) == 0) {
      return line.substr(begin.size());
    }
  }
  return "unknown";
}

template <typename Item>
double Median(const std::vector<Item>& items,
              const std::function<double(const Item&)>& value) {
  std::vector<double> values;
  for (const Item& item : items) values.push_back(value(item));
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half]
                           : (values[half - 1] + values[half]) / 2;
}

EvenTree MakeTree(const Flags& flags) {
  return MakeEvenTree(flags.classes,
                      flags.fanout  ? LevelsOf(flags.classes, flags.fanout)
                      : flags.depth ? LevelsDeep(flags.classes, flags.depth)
                                    : TwoLevels(flags.classes));
}

// Ends the process where two rows of the table computed different things.
class Checks {
 public:
  void Add(Isa isa, const Turn& turn) {
    for (const std::vector<double>& losses : turn.losses) {
      double mean = 0;
      for (double loss : losses) mean += loss / losses.size();
      if (mean_ == 0) mean_ = mean;
      Require(std::fabs(mean - mean_) <= 1e-4 * mean_, "ISA or phase");
    }
    for (int i = 0; i < 3; ++i) {
      std::vector<double>& first = first_[{isa, i}];
      if (first.empty()) first = turn.losses[i];
      Require(first == turn.losses[i], "number of threads or size of pages");
    }
  }
  double mean() const { return mean_; }

 private:
  static void Require(bool same, const char* what) {
    if (same) return;
    std::fprintf(stderr, "FAILED: the losses depend on the %s\n", what);
    std::exit(EXIT_FAILURE);
  }

  double mean_ = 0;
  std::map<std::pair<Isa, int>, std::vector<double>> first_;
};

void PrintRates(const std::vector<Config>& rows,
                const std::vector<std::vector<Rates>>& rates) {
  std::printf("\n%22s%30s%14s\n", "", "the machine, GB/s", "GFLOP/s");
  std::printf("%-10s%12s%10s%10s%10s%14s\n", "isa", "threads", "read",
              "in place", "written", "multiply-add");
  for (size_t i = 0; i < rows.size(); ++i) {
    auto median = [&](double Rates::* rate) {
      return Median<Rates>(rates[i],
                           [rate](const Rates& r) { return r.*rate / 1e9; });
    };
    std::printf("%-10s%12d%10.1f%10.1f%10.1f%14.0f\n", IsaName(rows[i].isa),
                static_cast<int>(rows[i].threads), median(&Rates::read),
                median(&Rates::in_place), median(&Rates::past_caches),
                median(&Rates::flops));
  }
}

void PrintTurns(const char* title, Phase first_phase, int decimals,
                const std::vector<Config>& rows,
                const std::vector<std::vector<Turn>>& turns,
                double (*value)(const Sample&)) {
  std::printf("\n%-10s%8s%8s", title, "threads", "pages");
  for (int phase = first_phase; phase < kPhases; ++phase) {
    std::printf("%10s", kPhaseNames[phase]);
  }
  std::printf("\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-10s%8d%8s", IsaName(rows[i].isa),
                static_cast<int>(rows[i].threads),
                rows[i].huge_pages ? "huge" : "small");
    for (int phase = first_phase; phase < kPhases; ++phase) {
      std::printf("%10.*f", decimals,
                  Median<Turn>(turns[i], [&](const Turn& turn) {
                    return value(turn.phases[phase]);
                  }));
    }
    std::printf("\n");
  }
}

template <typename T>
int Measure(const Flags& flags) {
  const size_t stream_bytes = flags.stream_mb << 20;
  // Per class: a row of weights, and the arrays of the tree.
  const double needed = static_cast<double>(stream_bytes) +
                        static_cast<double>(flags.classes) *
                            (flags.width * sizeof(T) * flags.huge_pages.size() +
                             4 * sizeof(int64_t));
  const double available = AvailableBytes();
  if (available > 0 && needed > available) {
    std::fprintf(stderr, "needs %.1f GB at least; %.1f GB are available\n",
                 needed / 1e9, available / 1e9);
    return EXIT_FAILURE;
  }
  const EvenTree tree = MakeTree(flags);
  const int64_t rows = tree.view().num_rows;
  const size_t weight_bytes = rows * flags.width * sizeof(T);
  std::printf(
      "N=%lld, D=%lld, B=%lld, %s labels, %s; %lld rows in %lld groups, depth "
      "%lld\n",
      static_cast<long long>(flags.classes),  // NOLINT(runtime/int)
      static_cast<long long>(flags.width),    // NOLINT(runtime/int)
      static_cast<long long>(flags.batch),    // NOLINT(runtime/int)
      flags.zipf ? "zipf" : "uniform", flags.dtype.c_str(),
      static_cast<long long>(rows),                    // NOLINT(runtime/int)
      static_cast<long long>(tree.view().num_groups),  // NOLINT(runtime/int)
      static_cast<long long>(tree.depth));             // NOLINT(runtime/int)

  std::map<int64_t, std::unique_ptr<Threads>> pools;
  for (int64_t threads : flags.threads) {
    pools[threads] = std::make_unique<Threads>(threads);
  }
  const Parallel all = pools.rbegin()->second->parallel();
  std::map<bool, std::unique_ptr<Memory>> weights;
  for (bool huge : flags.huge_pages) {
    weights[huge] = std::make_unique<Memory>(weight_bytes, huge);
    FillRandom(weights[huge]->template data<T>(), rows * flags.width, 1, all);
    std::printf("weights of %.1f MB, asked for %s pages: %.0f%% is on huge\n",
                weight_bytes / 1e6, huge ? "huge" : "small",
                100 * weights[huge]->HugeShare());
  }
  std::vector<T> biases(rows);
  FillRandom(biases.data(), rows, 2, all);
  std::vector<float> inputs(flags.batch * flags.width);
  FillRandom(inputs.data(), flags.batch * flags.width, 3, all);
  const Memory stream(stream_bytes, /*huge_pages=*/true);

  std::vector<Config> machines, configs;
  for (Isa isa : flags.isas) {
    for (int64_t threads : flags.threads) {
      machines.push_back({isa, threads, true});
      for (bool huge : flags.huge_pages)
        configs.push_back({isa, threads, huge});
    }
  }
  std::vector<std::vector<Rates>> rates(machines.size());
  std::vector<std::vector<Turn>> turns(configs.size());
  const Labels labels(flags.classes, flags.zipf);
  Steps<T> steps(tree.view(), flags.width, inputs);
  double mean_loss = 0;
  for (int64_t number = 0; number <= flags.repetitions; ++number) {
    const bool warms_up = number == 0;
    for (size_t i = 0; i < machines.size(); ++i) {
      const int64_t threads = machines[i].threads;
      const int64_t part = stream_bytes / sizeof(float) / threads / 256 * 256;
      const Rates sample =
          MeasureRates(machines[i].isa, static_cast<int>(threads),
                       pools[threads]->parallel(),
                       stream.template data<float>(), part * threads);
      if (!warms_up) rates[i].push_back(sample);
    }
    const std::vector<int64_t> batch = labels.Draw(flags.batch, number);
    Checks checks;
    // Another one is the first in each turn: it meets cold caches.
    for (size_t at = 0; at < configs.size(); ++at) {
      const size_t i = (at + number) % configs.size();
      const Config& config = configs[i];
      Turn turn;
      const std::string error = steps.Run(
          batch, weights[config.huge_pages]->template data<T>(), biases.data(),
          config.isa, pools[config.threads]->parallel(), &turn);
      if (!error.empty()) {
        std::fprintf(stderr, "FAILED: %s\n", error.c_str());
        return EXIT_FAILURE;
      }
      checks.Add(config.isa, turn);
      for (std::vector<double>& losses : turn.losses) losses = {};
      if (!warms_up) turns[i].push_back(std::move(turn));
    }
    mean_loss = checks.mean();
  }

  const Turn& last = turns[0].back();
  std::printf(
      "last labels: %lld groups of %lld rows touched, %.1f MB; mean "
      "loss %.6g\n",
      static_cast<long long>(last.touched_groups),  // NOLINT
      static_cast<long long>(last.touched_rows),    // NOLINT
      last.phases[kForward].bytes / 1e6, mean_loss);
  PrintRates(machines, rates);
  PrintTurns("ms", kPlan, 3, configs, turns,
             [](const Sample& s) { return 1e3 * s.seconds; });
  PrintTurns("GB/s", kForward, 1, configs, turns,
             [](const Sample& s) { return s.bytes / s.seconds / 1e9; });
  PrintTurns("GFLOP/s", kForward, 1, configs, turns,
             [](const Sample& s) { return s.flops / s.seconds / 1e9; });
  return EXIT_SUCCESS;
}

int Main(int argc, char** argv) {
  Flags flags;
  const std::string error = ReadFlags(argc, argv, &flags);
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return EXIT_FAILURE;
  }
  std::printf(
      "%s; huge pages: %s\n",
      FirstMatch("/proc/cpuinfo", "model name\t: ").c_str(),
      FirstMatch("/sys/kernel/mm/transparent_hugepage/enabled", "").c_str());
  if (flags.dtype == "float64") return Measure<double>(flags);
  if (flags.dtype == "bfloat16") return Measure<bfloat16>(flags);
  if (flags.dtype == "float16") return Measure<half>(flags);
  return Measure<float>(flags);
}

}  // namespace
}  // namespace tf_hsm

int main(int argc, char** argv) { return tf_hsm::Main(argc, argv); }
