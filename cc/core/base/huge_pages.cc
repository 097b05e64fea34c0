#include "cc/core/base/huge_pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>  // NOLINT(build/c++11)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>  // NOLINT(build/c++11)

namespace tf_hsm {
namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

// Smaller memory fits the second level of address translations.
constexpr size_t kMinBytes = 8 * kHugePage;

// What is asked for in one call: one huge page at a time takes ten times as
// long, and all at once holds up whoever asks for memory meanwhile.
constexpr uintptr_t kPiece = 64 * kHugePage;

// Memory that was freed may be there again, at the same place and in small
// pages.
constexpr std::chrono::minutes kUntilAskedAgain(1);

// MADV_COLLAPSE of Linux 6.1: older headers lack it, older systems refuse it.
constexpr int kCollapse = 25;

bool AreAllowed() {
  const char* wish = std::getenv("TF_HSM_HUGE_PAGES");
  if (wish != nullptr && std::strcmp(wish, "0") == 0) return false;
  std::FILE* file =
      std::fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == nullptr) return false;
  char line[64] = {};
  const bool read = std::fgets(line, sizeof(line), file) != nullptr;
  std::fclose(file);
  return read && std::strstr(line, "[never]") == nullptr;
}

// Whether nobody has asked for this memory lately, as far as is known: a place
// that several memories share is that of the last one.
bool IsTimeToAsk(const void* data, size_t bytes) {
  using Clock = std::chrono::steady_clock;
  struct Asked {
    const void* data = nullptr;
    size_t bytes = 0;
    Clock::time_point when;
  };
  static std::mutex mutex;
  static std::array<Asked, 64> all;
  const auto now = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex);
  Asked& last = all[reinterpret_cast<uintptr_t>(data) / kHugePage % all.size()];
  if (last.data == data && last.bytes == bytes &&
      now - last.when < kUntilAskedAgain) {
    return false;
  }
  last = {data, bytes, now};
  return true;
}

}  // namespace

bool PreferHugePages(const void* data, size_t bytes) {
#if defined(__linux__)
  static const bool allowed = AreAllowed();
  if (bytes < kMinBytes || !allowed || !IsTimeToAsk(data, bytes)) return false;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = (begin + bytes) / kHugePage * kHugePage;
  uintptr_t at = (begin + kHugePage - 1) / kHugePage * kHugePage;
  // A wish: what the system refuses stays as it is.
  madvise(reinterpret_cast<void*>(at), end - at, MADV_HUGEPAGE);
  for (; at < end; at += kPiece) {
    const uintptr_t size = std::min(kPiece, end - at);
    if (madvise(reinterpret_cast<void*>(at), size, kCollapse) != 0) break;
  }
  return true;
#else
  return false;
#endif
}

}  // namespace tf_hsm
