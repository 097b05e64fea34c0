#include "cc/kernels/common/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "absl/synchronization/notification.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_hsm {
namespace {

// Outlives the call that made it: a helper that the pool starts too late finds
// no item left and touches nothing but this.
struct Items {
  const int64_t count;
  const std::function<void(int64_t)>* const work;
  const std::shared_ptr<const std::function<void()>> reserve;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  std::atomic<bool> has_failed{false};
  std::exception_ptr failure;  // the first one
  absl::Notification finished;

  Items(int64_t count, const std::function<void(int64_t)>* work,
        const std::shared_ptr<const std::function<void()>>& reserve)
      : count(count), work(work), reserve(reserve) {}

  void Help() {
    try {
      if (*reserve) (*reserve)();
    } catch (...) {
      return;
    }
    Drain();
  }

  void Drain() {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        (*work)(i);
      } catch (...) {  // it would end the process on a thread of the pool
        if (!has_failed.exchange(true)) failure = std::current_exception();
      }
      if (++done == count) finished.Notify();
    }
  }
};

}  // namespace

Parallel PoolParallel(OpKernelContext* context,
                      const std::function<void()>& reserve) {
  const auto* pool = context->device()->tensorflow_cpu_worker_threads();
  if (reserve) reserve();
  const auto shared = std::make_shared<const std::function<void()>>(reserve);
  return
      [pool, shared](int64_t count, const std::function<void(int64_t)>& work) {
        const int64_t helpers = std::min<int64_t>(pool->num_threads, count) - 1;
        if (helpers <= 0) return Serial(count, work);
        std::shared_ptr<Items> items;
        try {
          items = std::make_shared<Items>(count, &work, shared);
        } catch (const std::bad_alloc&) {
          return Serial(count, work);
        }
        try {
          for (int64_t i = 0; i < helpers; ++i) {
            pool->workers->Schedule([items] { items->Help(); });
          }
        } catch (const std::bad_alloc&) {  // then there are fewer helpers
        }
        items->Drain();
        items->finished.WaitForNotification();
        if (items->failure) std::rethrow_exception(items->failure);
      };
}

void SetZero(const Parallel& parallel, Tensor* tensor) {
  constexpr int64_t kBytes = 1 << 20;
  char* data = static_cast<char*>(tensor->data());
  const int64_t total = tensor->TotalBytes();
  parallel((total + kBytes - 1) / kBytes, [&](int64_t i) {
    std::memset(data + i * kBytes, 0, std::min(kBytes, total - i * kBytes));
  });
}

}  // namespace tf_hsm
