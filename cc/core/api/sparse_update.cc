#include "cc/core/api/sparse_update.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "cc/core/base/isa.h"
#include "cc/core/table/kernel_table.h"

namespace tf_hsm {
namespace {

// Numbers of a gradient that are one work item.
constexpr int64_t kItemNumbers = 1 << 16;

}  // namespace

std::vector<KeyAndIndex> SortRows(const int64_t* indices, int64_t count) {
  std::vector<KeyAndIndex> rows(count);
  for (int64_t i = 0; i < count; ++i) rows[i] = {indices[i], i};
  SortByKey(&rows);
  return rows;
}

template <typename T>
void SparseUpdate(const Update<T>& update, const SparseGradient<T>& gradient,
                  const Parallel& parallel) {
  const int64_t count = gradient.count;
  const KeyAndIndex* rows = gradient.rows;
  const int64_t size =
      std::max<int64_t>(kItemNumbers / std::max<int64_t>(gradient.width, 1), 1);
  // An item ends with the last value of a row.
  auto boundary = [&](int64_t i) {
    if (i == 0 || i >= count) return rows + std::min(i, count);
    return std::upper_bound(
        rows + i, rows + count, rows[i - 1].key,
        [](int64_t key, const KeyAndIndex& one) { return key < one.key; });
  };
  const KernelTable<T>& table = KernelTableFor<T>(ActiveIsa(nullptr));
  auto run = [&](int64_t i) {
    table.sparse_rows(update, gradient, boundary(i * size),
                      boundary((i + 1) * size));
  };
  parallel((count + size - 1) / size, std::ref(run));
}

template <typename T>
void ReserveSparseUpdate(int64_t width) {
  KernelTableFor<T>(ActiveIsa(nullptr)).reserve_rows(width);
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(SparseUpdate, T) TF_HSM_MAKE(ReserveSparseUpdate, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
