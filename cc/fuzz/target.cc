#include "cc/fuzz/target.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tf_hsm::Bytes bytes(data, size);
  tf_hsm::Fuzz(&bytes);
  // libFuzzer keeps the input of a process that aborts.
  if (tf_hsm::failures > 0) std::abort();
  return 0;
}
