#include "cc/cuda/api/saved_state.h"
#include "cc/cuda/loss/dispatch.h"
#include "cc/cuda/loss/inputs.h"

namespace tf_hsm {
namespace gpu {
namespace {

constexpr int kThreads = 256;

template <typename A>
TF_HSM_KERNEL(kThreads)
CopyNumbers(const A* from, int64_t count, A* to) {
  for (int64_t i = GlobalIndex(); i < count; i += NumBlocks() * NumThreads()) {
    to[i] = from[i];
  }
}

}  // namespace

template <typename T>
std::string RestoreState(const Batch<T>& batch, const Memory& memory,
                         const void* saved, Accumulator<T>* losses,
                         void* stream) {
  using A = Accumulator<T>;
  const std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const DeviceLimits device = CurrentDevice();
  Buffers<T> buffers;
  const MemorySizes sizes =
      LayOut(batch, memory, ShapeOf(batch, device), &buffers);
  MakePlan(batch, buffers.bounds, buffers.hot_items, buffers.plan,
           buffers.plan_scratch, losses, stream);
  PackInputs(batch, buffers.plan.order, buffers.x, device, stream);
  // The rest of a state are numbers that are not looked at.
  const int64_t begin = buffers.normalizers - static_cast<A*>(memory.state);
  const int64_t count = sizes.state / static_cast<int64_t>(sizeof(A)) - begin;
  Launch(CopyNumbers<A>, Grid(CeilDivide(count, kThreads), device), kThreads, 0,
         stream, static_cast<const A*>(saved) + begin, count,
         buffers.normalizers);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T)                                          \
  template std::string RestoreState<T>(const Batch<T>&, const Memory&, \
                                       const void*, Accumulator<T>*, void*);
TF_HSM_INSTANTIATE(float)
TF_HSM_INSTANTIATE(double)
TF_HSM_INSTANTIATE(bfloat16)
TF_HSM_INSTANTIATE(half)
#undef TF_HSM_INSTANTIATE

}  // namespace gpu
}  // namespace tf_hsm
