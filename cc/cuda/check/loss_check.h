// Checks the loss and its gradients.

#ifndef TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_

#include <string>
#include <vector>

#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/check/plan_facts.h"

namespace tf_hsm {
namespace gpu {

template <typename T>
class LossCheck {
 public:
  using A = Accumulator<T>;

  // `c` has its reference.
  explicit LossCheck(const LossCase<T>& c) : case_(c) {}

  void Run(const std::string& prefix = "") const {
    Gradients(prefix, case_.logits);
    if (case_.logits > 0) Gradients(prefix, 0);
  }

 private:
  struct Results {
    std::vector<A> loss, dx, loss_only;
    std::vector<int64_t> rows;
    std::vector<T> dw, db;
    std::string error;
    bool operator==(const Results& o) const {
      return SameBits(loss, o.loss) && SameBits(dx, o.dx) &&
             SameBits(loss_only, o.loss_only) && rows == o.rows &&
             SameBits(dw, o.dw) && SameBits(db, o.db);
    }
  };

  Results RunGradients(int64_t logits) const {
    const DeviceCase<T> device(case_);
    const Batch<T>& batch = device.batch;
    const DeviceMemory blocks(batch, logits);
    const Memory& memory = blocks.memory;
    const DeviceArray<A> loss(case_.size), dx(case_.size * case_.width);
    const DeviceArray<A> loss_only(case_.size);
    Results results;
    results.error = Forward<T>(
        batch, memory, {loss_only.data(), nullptr, nullptr}, CheckStream());
    if (results.error.empty()) {
      results.error = Forward<T>(
          batch, memory, {loss.data(), dx.data(), nullptr}, CheckStream());
    }
    if (!results.error.empty()) return results;
    if (logits > 0) {
      results.error = MissingWork(batch, memory, case_.needs);
    }
    int64_t count = 0;
    if (case_.size > 0) {
      DeviceBlock::Download(NumTouchedRows(batch, memory), sizeof(count),
                            &count);
    }
    if (count > MaxTouchedRows(batch)) results.error += "too many touched rows";
    const int64_t capacity = count + (case_.size > 0 ? 3 : 0);
    const DeviceArray<int64_t> rows(capacity);
    const DeviceArray<T> dw(capacity * case_.width), db(capacity);
    results.error += Backward<T>(batch, memory, device.grads.data(),
                                 {capacity, rows.data(), dw.data(), db.data()},
                                 CheckStream());
    results.loss = loss.Download();
    results.loss_only = loss_only.Download();
    results.dx = dx.Download();
    results.rows = rows.Download();
    results.dw = dw.Download();
    results.db = db.Download();
    while (static_cast<int64_t>(results.rows.size()) > count) {
      if (results.rows.back() != -1) results.error += "no -1 past the rows";
      results.rows.pop_back();
    }
    results.dw.resize(count * case_.width);
    results.db.resize(count);
    return results;
  }

  void Gradients(const std::string& prefix, int64_t logits) const {
    const Results results = RunGradients(logits);
    const Results again = RunGradients(logits);
    Errors loss, loss_only, dx, dw, db;
    loss.AddAll(results.loss, case_.loss);
    loss_only.AddAll(results.loss_only, case_.loss);
    dx.AddAll(results.dx, case_.dx);
    std::vector<double> want_dw, want_db;
    for (int64_t row : case_.rows) {
      for (int64_t d = 0; d < case_.width; ++d) {
        want_dw.push_back(case_.dw[row * case_.width + d]);
      }
      want_db.push_back(case_.db[row]);
    }
    std::string error = results.error;
    if (error.empty() && results.rows != case_.rows) error = "wrong rows ";
    dw.AddAll(results.dw, want_dw);
    db.AddAll(results.db, want_db);
    case_.Report(
        prefix + (logits > 0 ? "gradients" : "gradients, logits made again"),
        error,
        {{"loss", loss},
         {"loss", loss_only},
         {"dx", dx},
         {"dw", dw},
         {"db", db}},
        results == again);
  }

  const LossCase<T>& case_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_
