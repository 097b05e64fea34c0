#include "cc/core/base/isa.h"

#include <cstdlib>
#include <utility>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tf_hsm {
namespace {

#if defined(__x86_64__)
// Linux gives tile registers to a process that asks for them.
bool HasTiles() {
#if defined(__linux__)
  // Clang's __builtin_cpu_supports does not know them.
  constexpr unsigned kTiles = 1u << 24, kBfloat16 = 1u << 22;
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & kTiles) == 0 ||
      (edx & kBfloat16) == 0) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // NOLINT
  static const bool given =
      syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return given;
#else
  return false;
#endif
}
#endif

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
#define TF_HSM_NAME(enumerator, name) #name,
  static constexpr const char* kNames[] = {TF_HSM_ISAS(TF_HSM_NAME)};
#undef TF_HSM_NAME
  return kNames[static_cast<int>(isa)];
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
      if (HasTiles()) isas.push_back(Isa::kAmx);
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
