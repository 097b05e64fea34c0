// What goes wrong below the op kernels, as a status.

#ifndef TF_HSM_CC_KERNELS_COMMON_STATUS_H_
#define TF_HSM_CC_KERNELS_COMMON_STATUS_H_

#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace tf_hsm {

// What a function of the core has returned: nothing, or an error's text.
inline absl::Status StatusOf(const std::string& error) {
  if (error.empty()) return absl::OkStatus();
  if (absl::StartsWith(error, "CUDA: ")) return absl::InternalError(error);
  return absl::InvalidArgumentError(error);
}

// Returns what `call` does. No memory is the only reason why it may throw.
template <typename Call>
absl::Status WithMemory(const Call& call) {
  constexpr char kNoMemory[] =
      "no memory for the scratch of this op, which has changed nothing; fewer "
      "examples need less";
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(kNoMemory);
  } catch (const std::length_error&) {
    return absl::ResourceExhaustedError(kNoMemory);
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_STATUS_H_
