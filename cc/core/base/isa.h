// Which instruction set the kernels run with: chosen once per process.

#ifndef TF_HSM_CC_CORE_BASE_ISA_H_
#define TF_HSM_CC_CORE_BASE_ISA_H_

#include <string>
#include <vector>

namespace tf_hsm {

// Every ISA of this machine type: its enumerator, and its name, which is also
// the namespace of what is compiled for it. "amx" is avx512 but for float and
// bfloat16.
#if defined(__x86_64__)
#define TF_HSM_ISAS(X)   \
  X(kBaseline, baseline) \
  X(kAvx2, avx2)         \
  X(kAvx512, avx512)     \
  X(kAmx, amx)
#else
#define TF_HSM_ISAS(X) X(kBaseline, baseline)
#endif

#define TF_HSM_ENUMERATOR(enumerator, name) enumerator,
enum class Isa { TF_HSM_ISAS(TF_HSM_ENUMERATOR) };
#undef TF_HSM_ENUMERATOR

const char* IsaName(Isa isa);

// What this machine and this build can run, the best last.
std::vector<Isa> SupportedIsas();

// The one in use: the best supported, or what the environment variable
// TF_HSM_CPU_ISA names. A name that is unknown or not supported here is
// reported in `error` (once set, it stays) and the best is used.
Isa ActiveIsa(std::string* error);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_ISA_H_
