// Huge pages: memory keeps its values, and the system is not asked too often.

#include "cc/core/base/huge_pages.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

void SmallMemoryIsLeftAlone() {
  std::vector<char> small(kMegabyte);
  Expect(!PreferHugePages(small.data(), small.size()), "1 MB");
  Expect(!PreferHugePages(nullptr, 0), "no memory");
}

void ValuesStay() {
  // At no boundary of any page.
  std::vector<uint32_t> values(10 * kMegabyte + 3);
  std::iota(values.begin(), values.end(), 7u);
  uint32_t* begin = values.data() + 1;
  const size_t bytes = (values.size() - 2) * sizeof(uint32_t);
  const bool asked = PreferHugePages(begin, bytes);
  Expect(!PreferHugePages(begin, bytes), "asked again at once");
  // Where the system is never asked, nor is it for other memory.
  Expect(PreferHugePages(begin, bytes - kMegabyte) == asked, "of another size");
  bool same = true;
  for (size_t i = 0; i < values.size(); ++i) same = same && values[i] == i + 7;
  Expect(same, "values changed");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  tf_hsm::SmallMemoryIsLeftAlone();
  tf_hsm::ValuesStay();
  return tf_hsm::Summarize();
}
