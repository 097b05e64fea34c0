#include "cc/fuzz/target.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tf_hsm::Bytes bytes(data, size);
  tf_hsm::Fuzz(&bytes);
  if (tf_hsm::failures > 0) {
    std::fflush(stdout);
    std::abort();  // so that libFuzzer keeps the input
  }
  return 0;
}
