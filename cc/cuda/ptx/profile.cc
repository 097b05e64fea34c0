#include "cc/cuda/ptx/profile.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "cc/cuda/ptx/findings.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr size_t kMostLines = 12;  // of a kernel

struct Counts {
  int64_t all = 0, mma = 0, global = 0, shared = 0, branch = 0;
};

bool StartsWith(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

Counts CountsOf(const Kernel& kernel) {
  Counts counts;
  for (size_t i = 0; i + 1 < kernel.code.size(); ++i) {
    const std::string& opcode = kernel.entry->statements[i].opcode;
    const int64_t n = kernel.counts[i];
    const bool accesses =
        StartsWith(opcode, "ld") || StartsWith(opcode, "st.") ||
        StartsWith(opcode, "atom") || StartsWith(opcode, "cp.async.c");
    counts.all += n;
    if (StartsWith(opcode, "mma")) counts.mma += n;
    if (StartsWith(opcode, "bra")) counts.branch += n;
    if (!accesses) continue;
    if (kernel.code[i].space == Space::kShared) {
      counts.shared += n;
    } else if (kernel.code[i].space != Space::kParameter) {
      counts.global += n;
    }
  }
  return counts;
}

std::string Ratio(int64_t a, int64_t b) {
  if (b == 0) return "";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(a) / b);
  return text;
}

}  // namespace

std::string KernelTable(const std::vector<KernelProfile>& profiles) {
  std::string table =
      "| kernel | launches | blocks | warp instructions | per block | mma | "
      "per mma | global | shared | branches |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const KernelProfile& profile : profiles) {
    const Counts counts = CountsOf(*profile.kernel);
    table +=
        "| `" + Readable(profile.kernel->entry->name) + "` | " +
        std::to_string(profile.launches) + " | " +
        std::to_string(profile.blocks) + " | " + std::to_string(counts.all) +
        " | " + Ratio(counts.all, profile.blocks) + " | " +
        std::to_string(counts.mma) + " | " + Ratio(counts.all, counts.mma) +
        " | " + std::to_string(counts.global) + " | " +
        std::to_string(counts.shared) + " | " + std::to_string(counts.branch) +
        " |\n";
  }
  return table;
}

std::string LineTable(const std::vector<KernelProfile>& profiles) {
  std::string table = "| warp instructions | line | kernel |\n|---|---|---|\n";
  for (const KernelProfile& profile : profiles) {
    const Kernel& kernel = *profile.kernel;
    std::map<std::pair<int, int>, int64_t> by_line;
    for (size_t i = 0; i + 1 < kernel.code.size(); ++i) {
      const SourcePosition& source = kernel.entry->statements[i].source;
      by_line[{source.file, source.line}] += kernel.counts[i];
    }
    std::vector<std::pair<int64_t, std::pair<int, int>>> lines;
    for (const auto& [line, count] : by_line) lines.push_back({-count, line});
    std::sort(lines.begin(), lines.end());
    if (lines.size() > kMostLines) lines.resize(kMostLines);
    for (const auto& [count, line] : lines) {
      table += "| " + std::to_string(-count) + " | " +
               SourceLine(*kernel.module, line.first, line.second) + " | `" +
               Readable(kernel.entry->name) + "` |\n";
    }
  }
  return table;
}

}  // namespace ptx
}  // namespace tf_hsm
