// The command line of the program.

#ifndef TF_HSM_BENCHMARKS_CORE_FLAGS_H_
#define TF_HSM_BENCHMARKS_CORE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/base/isa.h"

namespace tf_hsm {

struct Flags {
  int64_t classes = 1000000;
  int64_t width = 300;
  int64_t batch = 400;
  int64_t fanout = 0;  // 0: two levels, or `depth` ones
  int64_t depth = 0;
  bool zipf = false;
  std::string dtype = "float32";
  std::vector<bool> huge_pages = {true, false};  // under the weights
  std::vector<int64_t> threads;
  std::vector<Isa> isas = SupportedIsas();
  int64_t repetitions = 15;
  int64_t stream_mb = 512;
};

// Reads `--name=value` arguments. Returns an empty string, or what is wrong and
// what there is.
std::string ReadFlags(int argc, char** argv, Flags* flags);

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_FLAGS_H_
