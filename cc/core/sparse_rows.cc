#include "cc/core/sparse_rows.h"

#include "cc/core/softmax.h"
#include "cc/core/update_rows.h"

namespace tf_hsm {
namespace TF_HSM_ISA {
namespace {

// Values ahead of which rows are asked for.
constexpr int64_t kValuesAhead = 2;

template <typename S>
void Prefetch(const S* from, int64_t count) {
  const char* bytes = reinterpret_cast<const char*>(from);
  const int64_t size = count * static_cast<int64_t>(sizeof(S));
  for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i);
}

// sum += value
template <typename A>
void AddRow(const A* value, int64_t width, A* sum) {
  constexpr int lanes = kLanes<A>;
  int64_t d = 0;
  for (; d + lanes <= width; d += lanes) {
    Store(sum + d, Load(sum + d) + Load(value + d));
  }
  for (; d < width; ++d) sum[d] += value[d];
}

template <typename T>
void UpdateRows(const Update<T>& update, const SparseGradient<T>& gradient,
                const KeyAndIndex* begin, const KeyAndIndex* end) {
  using A = Accumulator<T>;
  const int64_t width = gradient.width;
  while (begin != end) {
    const int64_t row = begin->key;
    const A* value = gradient.values + begin->index * width;
    if (end - begin > kValuesAhead) {
      const KeyAndIndex& next = begin[kValuesAhead];
      Prefetch(gradient.values + next.index * width, width);
      Prefetch(update.weights + next.key * width, width);
    }
    ++begin;
    if (begin != end && begin->key == row) {
      A* sum = Scratch<A>(width);
      __builtin_memcpy(sum, value, width * sizeof(A));
      for (; begin != end && begin->key == row; ++begin) {
        AddRow(gradient.values + begin->index * width, width, sum);
      }
      value = sum;
    }
    UpdateWeights(update, row, 1, width, value);
  }
}

}  // namespace

#define TF_HSM_FUNCTION(T, name) \
  SparseRows<T> name() { return UpdateRows<T>; }
// Tiles do nothing here.
#if !defined(__AMX_BF16__)
TF_HSM_FUNCTION(float, FloatRows)
TF_HSM_FUNCTION(double, DoubleRows)
TF_HSM_FUNCTION(bfloat16, Bfloat16Rows)
TF_HSM_FUNCTION(half, HalfRows)
#endif
#undef TF_HSM_FUNCTION

}  // namespace TF_HSM_ISA
}  // namespace tf_hsm
