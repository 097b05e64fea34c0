// Checks the state of a loss that is made again.

#ifndef TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/api/saved_state.h"
#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class SavedStateCheck {
 public:
  using A = Accumulator<T>;

  SavedStateCheck(const LossCase<T>& c, std::mt19937* rng)
      : case_(c), device_(c), rng_(rng) {}

  // A backward from a state that is made again, of one in which the plan was
  // overwritten, has the bits of an honest one; with nothing left of it, the
  // rows are the same.
  void Run() {
    const Batch<T>& batch = device_.batch;
    if (batch.size == 0) return;
    const MemorySizes sizes = SizesOf(batch, case_.logits);
    const DeviceMemory first(sizes, case_.logits), own(sizes, case_.logits);
    const DeviceArray<A> losses(batch.size);
    LossOutputs<T> outputs;
    outputs.loss = losses.data();
    std::string error = Forward(batch, first.memory, outputs, CheckStream());
    const Results honest = BackwardOf(first.memory, &error);
    std::vector<unsigned char> saved(sizes.state);
    DeviceBlock::Download(first.state.data(), sizes.state, saved.data());
    const int64_t plan_bytes = PlanBytes();
    int64_t wrong = 0;
    for (const bool all : {false, true}) {
      for (int64_t i = 0; i < (all ? sizes.state : plan_bytes); ++i) {
        // Without the exponents of infinity and NaN.
        saved[i] = static_cast<unsigned char>((*rng_)() & 0x3f);
      }
      DeviceBlock forged(sizes.state);
      forged.Upload(saved.data());
      error += RestoreState(batch, own.memory, forged.data(), losses.data(),
                            CheckStream());
      const Results got = BackwardOf(own.memory, &error);
      wrong += got.rows != honest.rows;
      wrong += !all && std::memcmp(got.dw.data(), honest.dw.data(),
                                   got.dw.size() * sizeof(T)) != 0;
    }
    Line(LineName<T>(case_.name, std::min(batch.size, kMaxPredictions),
                     case_.width, case_.precision, "forged state"),
         error.empty() && wrong == 0, error + WrongText(wrong));
  }

 private:
  struct Results {
    std::vector<int64_t> rows;
    std::vector<T> dw;
  };

  Results BackwardOf(const Memory& memory, std::string* error) const {
    const Batch<T>& batch = device_.batch;
    int64_t count = 0;
    DeviceBlock::Download(NumTouchedRows(batch, memory), sizeof(count), &count);
    const DeviceArray<int64_t> rows(count);
    const DeviceArray<T> dw(count * batch.width), db(count);
    RowGradients<T> out;
    out.capacity = count;
    out.rows = rows.data();
    out.dw = dw.data();
    out.db = db.data();
    *error += Backward(batch, memory, device_.grads.data(), out, CheckStream());
    return {rows.Download(), dw.Download()};
  }

  // Bytes of a state before the inputs in sorted order: those of the counts, of
  // the order of the examples and of their depths, at least.
  int64_t PlanBytes() const {
    return 3 * 256 + 2 * case_.size * static_cast<int64_t>(sizeof(int32_t));
  }

  const LossCase<T>& case_;
  const DeviceCase<T> device_;
  std::mt19937* rng_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_
