// Checks that the state of a loss, with the parameters, is all that gradients
// are made of, and that they leave it as it was.

#ifndef TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_

#include <string>
#include <vector>

#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class SavedStateCheck {
 public:
  using A = Accumulator<T>;

  // `c` has its reference.
  explicit SavedStateCheck(const LossCase<T>& c) : case_(c), device_(c) {}

  // The number of rows is there before the second part of a forward; two
  // backwards have the bits of one right after a forward in one part.
  void Run() const {
    if (case_.size == 0) return;
    Batch<T> batch = device_.batch;
    const DeviceMemory whole(batch, case_.logits), kept(batch, case_.logits);
    const DeviceArray<A> loss(case_.size);
    const LossOutputs<T> outputs = {loss.data(), nullptr, nullptr};
    const int64_t count = case_.rows.size();
    int64_t wrong = 0;
    std::string error = Forward(batch, whole.memory, outputs, CheckStream());
    const Results want = BackwardOf(batch, whole.memory, count, &error);
    error += PlanForward(batch, kept.memory, loss.data(), CheckStream());
    wrong += NumRows(batch, kept.memory) != count;
    error += FinishForward(batch, kept.memory, outputs, CheckStream());

    batch.labels = batch.inputs = nullptr;
    const std::vector<char> before = Bytes(kept.state);
    for (int i = 0; i < 2; ++i) {
      const DeviceBlock scratch(kept.scratch.bytes());
      Memory memory = kept.memory;
      memory.scratch = scratch.data();
      const Results got = BackwardOf(batch, memory, count, &error);
      wrong += got.rows != want.rows || !SameBits(got.dw, want.dw) ||
               !SameBits(got.db, want.db);
      wrong += Bytes(kept.state) != before;
    }
    Line(LineName<T>(case_.name, case_.size, case_.width, case_.precision,
                     "saved state"),
         error.empty() && wrong == 0, error + WrongText(wrong));
  }

 private:
  struct Results {
    std::vector<int64_t> rows;
    std::vector<T> dw, db;
  };

  static std::vector<char> Bytes(const DeviceBlock& block) {
    std::vector<char> bytes(block.bytes());
    DeviceBlock::Download(block.data(), bytes.size(), bytes.data());
    return bytes;
  }

  static int64_t NumRows(const Batch<T>& batch, const Memory& memory) {
    int64_t count = 0;
    DeviceBlock::Download(NumTouchedRows(batch, memory), sizeof(count), &count);
    return count;
  }

  Results BackwardOf(const Batch<T>& batch, const Memory& memory, int64_t count,
                     std::string* error) const {
    const DeviceArray<int64_t> rows(count);
    const DeviceArray<T> dw(count * batch.width), db(count);
    *error +=
        Backward<T>(batch, memory, device_.grads.data(),
                    {count, rows.data(), dw.data(), db.data()}, CheckStream());
    return {rows.Download(), dw.Download(), db.Download()};
  }

  const LossCase<T>& case_;
  const DeviceCase<T> device_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_SAVED_STATE_CHECK_H_
