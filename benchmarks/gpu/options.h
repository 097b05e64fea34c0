// What gpu_benchmark is asked for on its command line.

#ifndef TF_HSM_BENCHMARKS_GPU_OPTIONS_H_
#define TF_HSM_BENCHMARKS_GPU_OPTIONS_H_

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/gpu/workloads.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kRuns = 21;  // after two that are not counted
constexpr int64_t kLogitsMb = 1024;

using Names = std::vector<std::string>;
const Names kTrees = {"2-level", "flat", "binary", "huffman", "pinned"};
const Names kLabels = {"uniform", "zipf"};
const Names kPrecisions = {"float32", "tf32", "bfloat16"};
const Names kSteps = {"forward", "forward_backward", "step"};

struct Options {
  bool tiny = false;
  int runs = kRuns;
  int64_t logits_mb = kLogitsMb;  // that the forward may keep
  std::FILE* csv = nullptr;
  std::set<std::string> words;

  // Whether `word` was given, or no other of its kind.
  bool Wants(const std::string& word, const Names& kind) const {
    return words.count(word) > 0 ||
           std::none_of(kind.begin(), kind.end(),
                        [&](const std::string& other) {
                          return words.count(other) > 0;
                        });
  }
};

Names WorkloadNames(bool tiny) {
  Names names;
  for (const Workload& load : Workloads(tiny)) names.push_back(load.name);
  return names;
}

// Says what the words may be, and ends the program, if one is none of them.
void CheckWords(const Options& options) {
  std::set<std::string> known;
  for (const Names& kind :
       {WorkloadNames(options.tiny), kTrees, kLabels, kPrecisions, kSteps}) {
    known.insert(kind.begin(), kind.end());
  }
  for (const std::string& word : options.words) {
    if (known.count(word) > 0) continue;
    std::fprintf(stderr, "\"%s\" is none of", word.c_str());
    for (const std::string& one : known) {
      std::fprintf(stderr, " %s", one.c_str());
    }
    std::fprintf(stderr, ", --csv=FILE, --runs=N, --logits_mb=N, --tiny\n");
    std::exit(EXIT_FAILURE);
  }
}

// Ends the program at an argument that is wrong.
Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--tiny") == 0) {
      options.tiny = true;
      options.runs = 1;
    } else if (std::strncmp(argv[i], "--runs=", 7) == 0) {
      options.runs = std::max(1, std::atoi(argv[i] + 7));
    } else if (std::strncmp(argv[i], "--logits_mb=", 12) == 0) {
      options.logits_mb = std::max(0, std::atoi(argv[i] + 12));
    } else if (std::strncmp(argv[i], "--csv=", 6) == 0) {
      options.csv = std::fopen(argv[i] + 6, "w");
      if (options.csv == nullptr) {
        std::perror(argv[i]);
        std::exit(EXIT_FAILURE);
      }
    } else {
      options.words.insert(argv[i]);
    }
  }
  CheckWords(options);
  return options;
}

}  // namespace
}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_GPU_OPTIONS_H_
