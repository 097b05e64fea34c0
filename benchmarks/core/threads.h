// Threads for the core where there is no TensorFlow.

#ifndef TF_HSM_BENCHMARKS_CORE_THREADS_H_
#define TF_HSM_BENCHMARKS_CORE_THREADS_H_

#include <condition_variable>  // NOLINT(build/c++11)
#include <memory>
#include <mutex>   // NOLINT(build/c++11)
#include <thread>  // NOLINT(build/c++11)
#include <vector>

#include "cc/core/base/parallel.h"

namespace tf_hsm {

// `threads` of them, the one that calls among them; the others wait in between.
class Threads {
 public:
  explicit Threads(int threads);
  ~Threads();

  // Lives no longer than this.
  Parallel parallel();

 private:
  struct Items;

  void Help();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Items> items_;  // the latest ones
  bool ending_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_THREADS_H_
