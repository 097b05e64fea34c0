#include "benchmarks/core/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "cc/core/base/types.h"

namespace tf_hsm {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Where the bits of a number are.
template <typename B, int mantissa, int bias>
struct LayoutOf {
  using Bits = B;
  static constexpr int kMantissa = mantissa, kBias = bias;
};
template <typename T>
struct Layout;
template <>
struct Layout<double> : LayoutOf<uint64_t, 52, 1023> {};
template <>
struct Layout<float> : LayoutOf<uint32_t, 23, 127> {};
template <>
struct Layout<bfloat16> : LayoutOf<uint16_t, 7, 127> {};
template <>
struct Layout<half> : LayoutOf<uint16_t, 10, 15> {};

// Steele, Lea, Flood (2014): Fast splittable pseudorandom number generators.
uint64_t SplitMix(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Memory::Memory(size_t bytes, bool huge_pages) {
  mapped_bytes_ = (bytes / kHugePage + 2) * kHugePage;
  mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) {
    std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
    std::exit(EXIT_FAILURE);
  }
#if defined(MADV_HUGEPAGE)
  madvise(mapped_, mapped_bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)huge_pages;
#endif
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped_);
  data_ =
      reinterpret_cast<void*>((begin + kHugePage - 1) / kHugePage * kHugePage);
}

Memory::~Memory() { munmap(mapped_, mapped_bytes_); }

double Memory::HugeShare() const {
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool inside = false;
  double touched = 0, huge = 0;
  while (std::getline(file, line)) {
    uintptr_t first, last;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first,
                    &last) == 2) {
      const uintptr_t here = reinterpret_cast<uintptr_t>(data_);
      inside = first <= here && here < last;
    }
    if (!inside) continue;
    double kilobytes;
    if (std::sscanf(line.c_str(), "Rss: %lf", &kilobytes) == 1) {
      touched = kilobytes;
    }
    if (std::sscanf(line.c_str(), "AnonHugePages: %lf", &kilobytes) == 1) {
      huge = kilobytes;
    }
  }
  return touched > 0 ? huge / touched : 0;
}

size_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    size_t kilobytes;
    if (std::sscanf(line.c_str(), "MemAvailable: %zu kB", &kilobytes) == 1) {
      return kilobytes << 10;
    }
  }
  return 0;
}

template <typename T>
void FillRandom(T* numbers, int64_t count, uint64_t seed,
                const Parallel& parallel) {
  using L = Layout<T>;
  using Bits = typename L::Bits;
  constexpr int64_t kChunk = 1 << 16;
  constexpr Bits kMantissa = (Bits{1} << L::kMantissa) - 1;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  constexpr Bits kExponent =
      static_cast<Bits>(Bits{L::kBias - 5} << L::kMantissa);
  parallel((count + kChunk - 1) / kChunk, [&](int64_t chunk) {
    uint64_t state = seed * 0x632be59bd9b4e019u + chunk;
    const int64_t end = std::min((chunk + 1) * kChunk, count);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const Bits random = static_cast<Bits>(SplitMix(&state));
      const Bits bits = (random & (kMantissa | kSign)) | kExponent;
      std::memcpy(numbers + i, &bits, sizeof(bits));
    }
  });
}

template void FillRandom(float*, int64_t, uint64_t, const Parallel&);
template void FillRandom(double*, int64_t, uint64_t, const Parallel&);
template void FillRandom(bfloat16*, int64_t, uint64_t, const Parallel&);
template void FillRandom(half*, int64_t, uint64_t, const Parallel&);

}  // namespace tf_hsm
