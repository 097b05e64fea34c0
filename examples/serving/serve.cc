// Loads a SavedModel that tf_hsm.serving exported and answers a request; or
// answers many at once, and says how fast.
//
//     bazel run //examples/serving:serve -- --model=DIR
//     bazel run //examples/serving:serve -- --model=DIR --callers=100
//
// README.md beside this file says more.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>  // NOLINT(build/c++11)
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "examples/serving/latencies.h"
#include "examples/serving/requests.h"
#include "examples/serving/saved_model.h"

namespace tf_hsm {
namespace {

constexpr char kUsage[] =
    "flags, with their defaults:\n"
    "  --model=DIR      a SavedModel of tf_hsm.serving.export; needed\n"
    "  --library=FILE   the op library; the one in the SavedModel\n"
    "  --callers=0      threads that send requests at once; 0: one request\n"
    "  --seconds=10     how long they do\n"
    "  --batch=1        the first dimension of a request\n"
    "  --steps=16       any other dimension that the model leaves open\n"
    "  --limit=100      integers in requests are at random in [0, limit)\n";

constexpr int64_t kRequests = 64;  // different ones
constexpr int64_t kShown = 10;     // numbers of an answer

struct Flags {
  std::string model;
  std::string library;
  int64_t callers = 0;
  int64_t seconds = 10;
  RequestSize size;
};

struct Request {
  std::vector<TensorPtr> inputs;
  std::vector<TensorPtr> answer;
};

// What one caller saw.
struct Report {
  Latencies latencies;
  int64_t wrong = 0;
};

bool ReadFlags(int argc, char** argv, Flags* flags) {
  using Reader = std::function<bool(const std::string&)>;
  auto text = [](std::string* value) -> Reader {
    return [=](const std::string& t) { return !(*value = t).empty(); };
  };
  auto number = [](int64_t* value, int64_t least = 1) -> Reader {
    return [=](const std::string& t) {
      char* end;
      *value = std::strtoll(t.c_str(), &end, 10);
      return !t.empty() && *end == '\0' && *value >= least;
    };
  };
  const std::map<std::string, Reader> readers = {
      {"--model", text(&flags->model)},
      {"--library", text(&flags->library)},
      {"--callers", number(&flags->callers, 0)},
      {"--seconds", number(&flags->seconds)},
      {"--batch", number(&flags->size.batch)},
      {"--steps", number(&flags->size.steps)},
      {"--limit", number(&flags->size.limit)},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size() - 1);
    const auto reader = readers.find(argument.substr(0, equals));
    if (reader == readers.end() ||
        !reader->second(argument.substr(equals + 1))) {
      std::fprintf(stderr, "%s is not a flag or not a value of it\n",
                   argument.c_str());
      return false;
    }
  }
  if (flags->library.empty()) {
    flags->library = flags->model + "/assets.extra/_tf_hsm_ops.so";
  }
  return !flags->model.empty();
}

double ResidentMegabytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * sysconf(_SC_PAGESIZE) / 1e6;
}

// Sends requests, one after the other, until it is time to stop.
void Call(const SavedModel& model, const std::vector<Request>& requests,
          size_t first, const std::atomic<bool>& stop, Report* report) {
  using Clock = std::chrono::steady_clock;
  for (size_t i = first; !stop; ++i) {
    const Request& request = requests[i % requests.size()];
    const Clock::time_point begin = Clock::now();
    const std::vector<TensorPtr> answer = model.Run(request.inputs);
    const std::chrono::duration<double> passed = Clock::now() - begin;
    report->latencies.Add(passed.count());
    if (!Equal(answer, request.answer)) ++report->wrong;
  }
}

// Returns whether all answers were those that one caller alone gets.
bool Load(const SavedModel& model, const std::vector<Request>& requests,
          const Flags& flags) {
  const auto half = std::chrono::milliseconds(500 * flags.seconds);
  std::vector<Report> reports(flags.callers);
  std::vector<std::thread> callers;
  std::atomic<bool> stop(false);
  const double at_begin = ResidentMegabytes();
  for (size_t i = 0; i < reports.size(); ++i) {
    callers.emplace_back(
        [&, i] { Call(model, requests, i, stop, &reports[i]); });
  }
  std::this_thread::sleep_for(half);
  const double half_way = ResidentMegabytes();
  std::this_thread::sleep_for(half);
  const double at_end = ResidentMegabytes();
  stop = true;
  for (std::thread& caller : callers) caller.join();

  Report all;
  for (const Report& report : reports) {
    all.latencies.Add(report.latencies);
    all.wrong += report.wrong;
  }
  const int64_t total = all.latencies.total();
  std::printf("%zu callers, %lld s: %lld requests, %.0f per second\n",
              reports.size(), static_cast<long long>(flags.seconds),  // NOLINT
              static_cast<long long>(total),                          // NOLINT
              static_cast<double>(total) / flags.seconds);
  std::printf("latency: p50 %.2f ms, p99 %.2f ms\n",
              1e3 * all.latencies.Quantile(0.5),
              1e3 * all.latencies.Quantile(0.99));
  std::printf(
      "resident memory: %.1f MB at the begin, %.1f MB half-way, %.1f MB at "
      "the end\n",
      at_begin, half_way, at_end);
  std::printf("answers that differ from those of one caller alone: %lld\n",
              static_cast<long long>(all.wrong));  // NOLINT
  return all.wrong == 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  if (!ReadFlags(argc, argv, &flags)) {
    std::fprintf(stderr, "%s", kUsage);
    return EXIT_FAILURE;
  }
  const SavedModel model(flags.library, flags.model, "serving_default");
  std::mt19937 random;
  std::vector<Request> requests(flags.callers > 0 ? kRequests : 1);
  for (Request& request : requests) {
    request.inputs = RandomRequest(model.inputs(), flags.size, &random);
    if (request.inputs.empty()) {
      std::fprintf(stderr, "the model takes neither integers nor floats\n");
      return EXIT_FAILURE;
    }
    request.answer = model.Run(request.inputs);
  }
  const std::vector<TensorPtr>& inputs = requests[0].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::printf("%s:%s\n", model.inputs()[i].name.c_str(),
                FirstNumbers(inputs[i].get(), kShown).c_str());
  }
  const std::vector<TensorPtr>& answer = requests[0].answer;
  for (size_t i = 0; i < answer.size(); ++i) {
    std::printf("-> %s:%s\n", model.outputs()[i].name.c_str(),
                FirstNumbers(answer[i].get(), kShown).c_str());
  }
  if (flags.callers == 0) return EXIT_SUCCESS;
  return Load(model, requests, flags) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace tf_hsm

int main(int argc, char** argv) { return tf_hsm::Main(argc, argv); }
