// Asking for memory before it is needed.

#ifndef TF_HSM_CC_CORE_BASE_PREFETCH_H_
#define TF_HSM_CC_CORE_BASE_PREFETCH_H_

#include <cstdint>

namespace tf_hsm {

// Asks for the cache lines of `count` numbers, to read or to write them, in the
// second cache: it has room for more requests than the first.
template <bool writes = false, typename T>
inline __attribute__((always_inline)) void Prefetch(const T* from,
                                                    int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; i += kLine) {
    __builtin_prefetch(from + i, writes, 2);
  }
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_PREFETCH_H_
