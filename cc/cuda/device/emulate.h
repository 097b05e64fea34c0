// A block of GPU threads on the CPU, to test the kernels without a GPU.
//
// Each thread of a block is a fiber. Fibers run in an order drawn from a seed
// and change only where they wait: at barriers and where the lanes of a warp
// meet. What a GPU would let pass, or show now and then, is an error here:
//   - a thread that ends before a barrier others wait at, or lanes of a warp
//     that meet at different operations;
//   - shared memory starts as NaN, and has exactly the bytes asked for, in its
//     own allocation, so that a sanitizer sees accesses past its end;
//   - an asynchronous copy arrives when its thread waits for it, not before,
//     and a copy that is never waited for is an error; so is one that is not
//     aligned to its size;
//   - loads of fragments, and of rows of matrices, that collide in a bank of
//     shared memory are an error;
//   - blocks run one after another in a drawn order;
//   - work on another stream than the test expects.
// Several threads of the host may launch: one launch runs at a time.
// Not emulated: the memory model below barriers, time, and registers.

#ifndef TF_HSM_CC_CUDA_DEVICE_EMULATE_H_
#define TF_HSM_CC_CUDA_DEVICE_EMULATE_H_

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace tf_hsm::gpu {
namespace emulate {

constexpr int kLanes = 32;
constexpr int kMaxExchange = 64;  // bytes that a lane gives the others
constexpr size_t kStackBytes = 64 << 10;

// Limits of the emulated device.
struct Options {
  uint64_t seed = 1;
  int64_t shared_bytes = 76 << 10;  // most of a block
  int num_processors = 2;
  // The sort or scan that fails, counted from the next one; -1: none.
  int failing_call = -1;
};
inline Options options;

// The stream of all that this thread of the host launches.
inline char any_stream;
inline thread_local const void* expected_stream = &any_stream;

inline std::mutex one_launch;

// Errors found; the first one is printed at once.
inline std::atomic<int> errors{0};

inline void Report(const std::string& what) {
  if (errors++ == 0) std::printf("EMULATION: %s\n", what.c_str());
}

// To be called with the stream of each launch.
inline void Use(const void* stream) {
  if (expected_stream != &any_stream && stream != expected_stream) {
    Report("work on another stream");
  }
}

// Whether this sort or scan is the one that fails.
inline bool FailsNow() {
  return options.failing_call >= 0 && options.failing_call-- == 0;
}

struct Copy {
  char* to;
  const char* from;
  int bytes;
  int valid;
};

// What a lane loads together with the others of its warp.
struct Load {
  const char* from;
  int bytes;  // at most 4, or 16
};

enum class State { kReady, kAtBarrier, kAtWarp, kDone };

// Where a fiber, or the scheduler, goes on. The first switch to a fiber starts
// it; later ones jump, which needs no system call as swapcontext does.
struct Place {
  ucontext_t start;
  void* here[5];  // of __builtin_setjmp
  bool started = false;
};

// A context to begin others with.
inline const ucontext_t* Fresh() {
  static ucontext_t fresh;
  static const int made = getcontext(&fresh);
  (void)made;
  return &fresh;
}

// A function of its own: GCC does not allow it beside __builtin_setjmp. That it
// leads to another stack is more than GCC promises.
[[noreturn]] __attribute__((noinline)) inline void Jump(Place* to) {
  __builtin_longjmp(to->here, 1);
}

// Not inlined, so that callers keep nothing in registers that it changes.
__attribute__((noinline)) inline void Switch(Place* from, Place* to) {
  from->started = true;
  if (__builtin_setjmp(from->here) != 0) return;
  if (to->started) Jump(to);
  to->started = true;
  setcontext(&to->start);
}

struct Fiber {
  Place place;
  std::unique_ptr<char[]> stack;
  int index = 0;
  State state = State::kReady;
  const char* operation = "";
  char given[kMaxExchange] = {};
  std::vector<Load> loads;  // since the lanes met
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> committed;
};

class Block {
 public:
  // Runs `body` once per thread.
  void Run(int64_t block_index, int64_t grid_size, int size,
           int64_t shared_bytes, std::mt19937_64* rng,
           const std::function<void()>& body) {
    index = block_index;
    grid = grid_size;
    num_threads = size;
    body_ = &body;
    if (size % kLanes != 0) Report("a block is not whole warps");
    shared.reset(new char[shared_bytes]);
    std::memset(shared.get(), 0xff, shared_bytes);
    if (static_cast<int>(fibers_.size()) < size) fibers_.resize(size);
    taken_.resize(size / kLanes * kLanes * kMaxExchange);
    at_warp_.assign(size / kLanes, 0);
    at_barrier_ = done_ = 0;
    ready_.resize(size);
    std::iota(ready_.begin(), ready_.end(), 0);
    for (int i = 0; i < size; ++i) Start(i);
    while (!ready_.empty()) {
      std::swap(ready_[(*rng)() % ready_.size()], ready_.back());
      current = &fibers_[ready_.back()];
      ready_.pop_back();
      Switch(&main_, &current->place);
      if (current->state == State::kDone) {
        ++done_;
        if (!current->open.empty() || !current->committed.empty()) {
          Report("a thread ended with copies that it never waited for");
        }
      }
      ReleaseBarrier();
    }
    if (done_ < size) {
      Report("threads wait for others that ended or that wait elsewhere: " +
             std::string(current->operation));
      std::exit(EXIT_FAILURE);  // their fibers cannot be ended
    }
    shared.reset();
  }

  void Barrier() {
    ++at_barrier_;
    Wait(State::kAtBarrier, "barrier");
  }

  // What all lanes of the caller's warp gave: kLanes x kMaxExchange bytes.
  const char* Exchange(const char* operation, const void* given, int bytes) {
    std::memcpy(current->given, given, bytes);
    const int warp = current->index / kLanes;
    if (++at_warp_[warp] == kLanes) ReleaseWarp(warp, operation);
    Wait(State::kAtWarp, operation);
    return taken_.data() + int64_t{warp} * kLanes * kMaxExchange;
  }

  // Checks `count` loads at once: 32 of at most 4 bytes, or 8 of 16.
  void CheckBanks(const Load* loads, int count) {
    constexpr int kBanks = 32;  // of 4 bytes
    const int64_t unit = loads[0].bytes <= 4 ? 4 : 16;
    int64_t units[kBanks];
    std::fill_n(units, kBanks, -1);
    for (int i = 0; i < count; ++i) {
      const int64_t own = (loads[i].from - shared.get()) / unit;
      int64_t& read = units[own % (4 * kBanks / unit)];
      if (read >= 0 && read != own) return Report("a bank is read twice");
      read = own;
    }
  }

  int64_t index = 0;
  int64_t grid = 0;
  int num_threads = 0;
  std::unique_ptr<char[]> shared;
  Fiber* current = nullptr;

 private:
  static void Enter();

  void Start(int i) {
    Fiber& fiber = fibers_[i];
    fiber.index = i;
    fiber.state = State::kReady;
    fiber.loads.clear();
    fiber.open.clear();
    fiber.committed.clear();
    if (fiber.stack) return;  // it waits for the next block
    fiber.stack.reset(new char[kStackBytes]);
    ucontext_t* start = &fiber.place.start;
    *start = *Fresh();
    start->uc_stack.ss_sp = fiber.stack.get();
    start->uc_stack.ss_size = kStackBytes;
    start->uc_link = nullptr;  // Enter does not return
    makecontext(start, &Block::Enter, 0);
  }

  void Wait(State state, const char* operation) {
    current->operation = operation;
    if (current->state == State::kReady) current->state = state;
    Switch(&current->place, &main_);
    current->state = State::kReady;
  }

  // Called by the last lane, which then waits its turn like the others.
  void ReleaseWarp(int warp, const char* operation) {
    at_warp_[warp] = 0;
    CheckLoads(warp);
    for (int lane = 0; lane < kLanes; ++lane) {
      Fiber& fiber = fibers_[warp * kLanes + lane];
      const bool last = &fiber == current;
      if (!last && fiber.operation != operation &&
          std::strcmp(fiber.operation, operation) != 0) {
        Report(std::string("lanes meet at ") + operation + " and at " +
               fiber.operation);
      }
      std::memcpy(
          taken_.data() + (int64_t{warp} * kLanes + lane) * kMaxExchange,
          fiber.given, kMaxExchange);
      ready_.push_back(fiber.index);
    }
  }

  void ReleaseBarrier() {
    if (at_barrier_ == 0 || at_barrier_ + done_ < num_threads) return;
    if (done_ > 0) Report("a thread ended before a barrier of its block");
    at_barrier_ = 0;
    for (int i = 0; i < num_threads; ++i) {
      if (fibers_[i].state == State::kAtBarrier) ready_.push_back(i);
    }
  }

  // Checks the loads of a warp's lanes since they last met.
  void CheckLoads(int warp) {
    const size_t count = fibers_[warp * kLanes].loads.size();
    for (size_t n = 0; n < count; ++n) {
      Load together[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const std::vector<Load>& own = fibers_[warp * kLanes + i].loads;
        if (own.size() != count) {
          return Report("lanes that should load together do not");
        }
        together[i] = own[n];
      }
      CheckBanks(together, kLanes);
    }
    for (int i = 0; i < kLanes; ++i) fibers_[warp * kLanes + i].loads.clear();
  }

  const std::function<void()>* body_ = nullptr;
  Place main_;
  std::deque<Fiber> fibers_;
  std::vector<int> ready_;
  std::vector<char> taken_;
  std::vector<int> at_warp_;
  int at_barrier_ = 0;
  int done_ = 0;
};

inline Block block;

inline void Block::Enter() {
  for (;;) {
    (*block.body_)();
    block.current->state = State::kDone;
    Switch(&block.current->place, &block.main_);
  }
}

}  // namespace emulate
}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_EMULATE_H_
