#include "benchmarks/core/threads.h"

#include <atomic>

namespace tf_hsm {

// As in cc/kernels/cpu/parallel.cc: a helper that comes too late finds none
// left.
struct Threads::Items {
  int64_t count;
  const std::function<void(int64_t)>* work;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};

  // Returns whether the last item was done here.
  bool Drain() {
    bool last = false;
    for (int64_t i = next++; i < count; i = next++) {
      (*work)(i);
      last = ++done == count;
    }
    return last;
  }
};

Threads::Threads(int threads) {
  for (int i = 1; i < threads; ++i) {
    helpers_.emplace_back([this] { Help(); });
  }
}

Threads::~Threads() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

Parallel Threads::parallel() {
  return [this](int64_t count, const std::function<void(int64_t)>& work) {
    if (helpers_.empty() || count <= 1) return Serial(count, work);
    auto items = std::make_shared<Items>();
    items->count = count;
    items->work = &work;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      items_ = items;
    }
    changed_.notify_all();
    items->Drain();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return items->done == count; });
  };
}

void Threads::Help() {
  std::shared_ptr<Items> seen;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || items_ != seen; });
    if (ending_) return;
    seen = items_;
    lock.unlock();
    const bool last = seen->Drain();
    lock.lock();
    if (last) changed_.notify_all();
  }
}

}  // namespace tf_hsm
