// Makes the state of a loss again: see saved_state.h.

#include "cc/cuda/api/saved_state.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/loss_launcher.h"

namespace tf_hsm {
namespace gpu {
namespace {

template <typename A>
TF_HSM_KERNEL(kBlockThreads)
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
  std::string error = CheckBatch(batch);
  if (!error.empty() || batch.size == 0) return error;
  const LossLauncher<T> launcher(batch, memory, stream);
  error = launcher.PrepareState(losses);
  if (!error.empty()) return error;
  // The rest of a state are numbers that are not looked at.
  A* rest = launcher.buffers.normalizers;
  const int64_t begin = rest - static_cast<A*>(memory.state);
  const int64_t count =
      launcher.sizes.state / static_cast<int64_t>(sizeof(A)) - begin;
  launcher.PerThread(CopyNumbers<A>, count,
                     static_cast<const A*>(saved) + begin, count, rest);
  return LaunchError();
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(RestoreState, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace gpu
}  // namespace tf_hsm
