// Which instruction set the kernels run with: chosen once per process.

#ifndef TF_HSM_CC_CORE_BASE_ISA_H_
#define TF_HSM_CC_CORE_BASE_ISA_H_

#include <string>
#include <vector>

namespace tf_hsm {

enum class Isa { kBaseline, kAvx2, kAvx512, kAmx };

// "baseline", "avx2", "avx512" or "amx", which is avx512 but for
// float32 and bfloat16.
const char* IsaName(Isa isa);

// What this machine and this build can run, the best last.
std::vector<Isa> SupportedIsas();

// The one in use: the best supported, or what the environment variable
// TF_HSM_CPU_ISA names. A name that is unknown or not supported here is
// reported in `error` (once set, it stays) and the best is used.
Isa ActiveIsa(std::string* error);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_ISA_H_
