#include "cc/core/isa.h"

#include <cstdlib>
#include <utility>

namespace tf_hsm {
namespace {

std::pair<Isa, std::string> Choose() {
  const std::vector<Isa> supported = SupportedIsas();
  const char* wanted = std::getenv("TF_HSM_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return {supported.back(), ""};
  std::string names;
  for (Isa isa : supported) {
    if (std::string(wanted) == IsaName(isa)) return {isa, ""};
    names += std::string(names.empty() ? "" : ", ") + IsaName(isa);
  }
  return {supported.back(), "TF_HSM_CPU_ISA is '" + std::string(wanted) +
                                "', but this machine can run: " + names};
}

}  // namespace

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas = {Isa::kBaseline};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isas.push_back(Isa::kAvx2);
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      isas.push_back(Isa::kAvx512);
    }
  }
#endif
  return isas;
}

Isa ActiveIsa(std::string* error) {
  static const std::pair<Isa, std::string> chosen = Choose();
  if (error != nullptr) *error = chosen.second;
  return chosen.first;
}

}  // namespace tf_hsm
