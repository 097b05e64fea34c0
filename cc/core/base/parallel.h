// What the core asks of a thread pool.

#ifndef TF_HSM_CC_CORE_BASE_PARALLEL_H_
#define TF_HSM_CC_CORE_BASE_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace tf_hsm {

// Calls work(i) once for every i in [0, count), on any threads, starting the
// items in order (so that the largest can be put first), and returns when all
// are done. Items of one call never depend on each other, and how the work is
// cut into items never depends on the number of threads: results are the same
// to the bit for any pool.
using Parallel = std::function<void(int64_t count,
                                    const std::function<void(int64_t)>& work)>;

inline void Serial(int64_t count, const std::function<void(int64_t)>& work) {
  for (int64_t i = 0; i < count; ++i) work(i);
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_BASE_PARALLEL_H_
