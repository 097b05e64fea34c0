// What the kernels use of CUDA, in one place and under names of our own, with a
// second version on the emulation (emulate.h): the same kernel sources run on
// the CPU when no CUDA compiler reads them.

#ifndef TF_HSM_CC_CUDA_DEVICE_DEVICE_H_
#define TF_HSM_CC_CUDA_DEVICE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "cc/core/base/host_device.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define TF_HSM_KERNEL(threads) __global__ void __launch_bounds__(threads, 1)
// With room for so many blocks on a multiprocessor.
#define TF_HSM_CROWDED_KERNEL(threads, blocks) \
  __global__ void __launch_bounds__(threads, blocks)
#define TF_HSM_DEVICE __device__ __forceinline__
#ifdef TF_HSM_PTX  // for the interpreter of commit fe11de7b, which has no calls
#define TF_HSM_APART TF_HSM_DEVICE
#else
#define TF_HSM_APART __device__ __noinline__
#endif
#define TF_HSM_UNROLL _Pragma("unroll")
#define TF_HSM_UNROLL_4 _Pragma("unroll 4")
#define TF_HSM_NO_UNROLL _Pragma("unroll 1")
#else
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "cc/cuda/device/emulate.h"
#define TF_HSM_KERNEL(threads) void
#define TF_HSM_CROWDED_KERNEL(threads, blocks) void
#define TF_HSM_DEVICE inline
#define TF_HSM_APART inline
#define TF_HSM_UNROLL
#define TF_HSM_UNROLL_4
#define TF_HSM_NO_UNROLL
#endif

namespace tf_hsm::gpu {

constexpr int kWarp = 32;

// Threads of a block whose threads, or warps, do not work together.
constexpr int kBlockThreads = 256;

// Launches so far; a sort or a scan of CUB counts as the launches that it is
// made of for few numbers.
inline std::atomic<int64_t> num_launches{0};

// What launches depend on, of the current device.
struct DeviceLimits {
  int num_processors = 0;
  int64_t shared_bytes = 0;       // most of a block
  bool has_tensor_cores = false;  // mma with tf32 and bfloat16: sm_80
};

#ifdef __CUDACC__

inline DeviceLimits CurrentDevice() {
  DeviceLimits limits;
  // Where the runtime does not start, what every GPU has: then the launches
  // fail, and say why.
  int device = 0, processors = 0, shared = 48 << 10, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                         device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  limits.num_processors = processors > 0 ? processors : 1;
  limits.shared_bytes = shared;
  limits.has_tensor_cores = major >= 8;
  return limits;
}

// Runs kernel(args...) on `grid` blocks of `threads`. A launch that fails is
// reported by LaunchError.
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), int64_t grid, int threads,
            int64_t shared_bytes, void* stream, Arguments... arguments) {
  if (grid == 0) return;
  ++num_launches;
  if (shared_bytes > (48 << 10)) {
    // The most there is: threads that launch the kernel with different sizes
    // would undo what the other has set.
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(CurrentDevice().shared_bytes));
    // Room for as many blocks as registers allow, not for the first cache.
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                         cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
  }
  kernel<<<static_cast<unsigned>(grid), static_cast<unsigned>(threads),
           static_cast<size_t>(shared_bytes),
           static_cast<cudaStream_t>(stream)>>>(arguments...);
}

// An empty string where there is no error.
inline std::string ErrorText(cudaError_t error) {
  if (error == cudaSuccess) return "";
  std::string text = std::string("CUDA: ") + cudaGetErrorString(error);
  if (error == cudaErrorInsufficientDriver) {
    // TensorFlow itself may run on an older driver.
    text += "; the GPU kernels of this build need NVIDIA's driver ";
    text += CUDART_VERSION >= 13000 ? "580" : "525";
    text += " or newer (nvidia-smi prints the one that is installed)";
  }
  return text;
}

inline std::string LaunchError() { return ErrorText(cudaGetLastError()); }

TF_HSM_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
TF_HSM_DEVICE int NumThreads() { return static_cast<int>(blockDim.x); }
TF_HSM_DEVICE int64_t BlockIndex() { return blockIdx.x; }
TF_HSM_DEVICE int64_t NumBlocks() { return gridDim.x; }

TF_HSM_DEVICE char* SharedMemory() {
  extern __shared__ __align__(16) char shared_memory[];
  return shared_memory;
}

// Where something lies in shared memory, for the instructions that take no
// pointer; bytes can be added.
using SharedAddress = unsigned;
TF_HSM_DEVICE SharedAddress AddressOf(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

TF_HSM_DEVICE void SyncBlock() { __syncthreads(); }
TF_HSM_DEVICE void SyncWarp() { __syncwarp(); }
// Whether it is true of a lane of the warp.
TF_HSM_DEVICE bool AnyLane(bool value) {
  return __ballot_sync(0xffffffffu, value) != 0;
}

template <typename V>
TF_HSM_DEVICE V ShuffleXor(V value, int lanes) {
  return __shfl_xor_sync(0xffffffffu, value, lanes);
}

template <typename V>
TF_HSM_DEVICE V ShuffleFrom(V value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// A load from shared memory at which all lanes of a warp are together, up to a
// matrix instruction behind it; no two of them may collide in a bank.
template <typename V>
TF_HSM_DEVICE V LoadTogether(const V* from) {
  return *from;
}

// Returns what was there. For integers only: their sums have no order.
TF_HSM_DEVICE int AddAtomically(int* to, int value) {
  return atomicAdd(to, value);
}

TF_HSM_DEVICE void Prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// Copies `bytes` from global to shared memory, zeros from `valid` on, and reads
// nothing if that is 0; arrives
// at the caller's WaitForCopies, for others after a barrier behind that.
template <int bytes>
TF_HSM_DEVICE void CopyAsync(SharedAddress to, const void* from, int valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "of cp.async");
#if __CUDA_ARCH__ >= 800
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "r"(valid)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                 "l"(from), "n"(bytes), "r"(valid)
                 : "memory");
  }
#else
  using Words = typename std::conditional<
      bytes == 16, uint4,
      typename std::conditional<bytes == 8, uint2, unsigned>::type>::type;
  Words words = {};
  if (valid == bytes) {
    words = *static_cast<const Words*>(from);
  } else {
    for (int i = 0; i < valid; ++i) {
      reinterpret_cast<char*>(&words)[i] = static_cast<const char*>(from)[i];
    }
  }
  *static_cast<Words*>(__cvta_shared_to_generic(to)) = words;
#endif
}

TF_HSM_DEVICE void CommitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all but the last `left` commits of this thread.
template <int left>
TF_HSM_DEVICE void WaitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#endif
}

#else  // the emulation

inline DeviceLimits CurrentDevice() {
  return {emulate::options.num_processors, emulate::options.shared_bytes, true};
}

template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), int64_t grid, int threads,
            int64_t shared_bytes, void* stream, Arguments... arguments) {
  if (grid > 0) ++num_launches;
  const std::lock_guard<std::mutex> lock(emulate::one_launch);
  emulate::Use(stream);
  if (shared_bytes > emulate::options.shared_bytes) {
    emulate::Report("a launch asks for too much shared memory");
  }
  std::mt19937_64 rng(emulate::options.seed++);
  std::vector<int64_t> blocks(grid);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  for (int64_t index : blocks) {
    emulate::block.Run(index, grid, threads, shared_bytes, &rng,
                       [&] { kernel(arguments...); });
  }
}

inline std::string LaunchError() { return ""; }

inline int ThreadIndex() { return emulate::block.current->index; }
inline int NumThreads() { return emulate::block.num_threads; }
inline int64_t BlockIndex() { return emulate::block.index; }
inline int64_t NumBlocks() { return emulate::block.grid; }
inline char* SharedMemory() { return emulate::block.shared.get(); }
using SharedAddress = char*;
inline SharedAddress AddressOf(const void* shared) {
  return static_cast<char*>(const_cast<void*>(shared));
}
inline void SyncBlock() { emulate::block.Barrier(); }
inline void SyncWarp() { emulate::block.Exchange("SyncWarp", "", 1); }

// The value that `lane` of the caller's warp gave.
template <typename V>
V TakeFrom(const char* taken, int lane) {
  V value;
  std::memcpy(&value, taken + lane * emulate::kMaxExchange, sizeof(V));
  return value;
}

template <typename V>
V ShuffleXor(V value, int lanes) {
  const char* taken = emulate::block.Exchange("ShuffleXor", &value, sizeof(V));
  return TakeFrom<V>(taken, (ThreadIndex() % kWarp) ^ lanes);
}

inline bool AnyLane(bool value) {
  const char* taken = emulate::block.Exchange("AnyLane", &value, sizeof(bool));
  bool any = false;
  for (int lane = 0; lane < kWarp; ++lane) any |= TakeFrom<bool>(taken, lane);
  return any;
}

template <typename V>
V ShuffleFrom(V value, int lane) {
  const char* taken = emulate::block.Exchange("ShuffleFrom", &value, sizeof(V));
  return TakeFrom<V>(taken, lane);
}

template <typename V>
V LoadTogether(const V* from) {
  emulate::block.current->loads.push_back(
      {reinterpret_cast<const char*>(from), sizeof(V)});
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

inline int AddAtomically(int* to, int value) {
  const int before = *to;
  *to += value;
  return before;
}

inline void Prefetch(const void*) {}

template <int bytes>
void CopyAsync(SharedAddress to, const void* from, int valid) {
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 ||
      (valid > 0 && reinterpret_cast<uintptr_t>(from) % bytes != 0)) {
    emulate::Report("an asynchronous copy is not aligned");
  }
  emulate::block.current->open.push_back(
      {to, static_cast<const char*>(from), bytes, valid});
}

inline void CommitCopies() {
  emulate::Fiber& fiber = *emulate::block.current;
  fiber.committed.push_back(std::move(fiber.open));
  fiber.open.clear();
}

template <int left>
void WaitForCopies() {
  auto& committed = emulate::block.current->committed;
  for (; committed.size() > left; committed.pop_front()) {
    for (const emulate::Copy& copy : committed.front()) {
      if (copy.valid > 0) std::memcpy(copy.to, copy.from, copy.valid);
      std::memset(copy.to + copy.valid, 0, copy.bytes - copy.valid);
    }
  }
}

#endif

// Waits for all but the last `left` commits of this thread, 0 to 2.
TF_HSM_DEVICE void WaitForCopies(int left) {
  if (left >= 2) return WaitForCopies<2>();
  if (left == 1) return WaitForCopies<1>();
  WaitForCopies<0>();
}

TF_HSM_DEVICE int64_t GlobalIndex() {
  return BlockIndex() * NumThreads() + ThreadIndex();
}
TF_HSM_DEVICE int Lane() { return ThreadIndex() % kWarp; }
TF_HSM_DEVICE int WarpIndex() { return ThreadIndex() / kWarp; }

// The sum over the lanes of a warp, the same bits in all of them.
template <typename A>
TF_HSM_DEVICE A WarpSum(A value) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value += ShuffleXor(value, lanes);
  }
  return value;
}

template <typename V>
TF_HSM_HOST_DEVICE V Smaller(V a, V b) {
  return b < a ? b : a;
}
template <typename V>
TF_HSM_HOST_DEVICE V Larger(V a, V b) {
  return a < b ? b : a;
}
TF_HSM_HOST_DEVICE int64_t CeilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
TF_HSM_HOST_DEVICE int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDivide(a, b) * b;
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_DEVICE_DEVICE_H_
