// Checks the loss and its gradients: that the state of the loss, with the
// parameters, is all that they are made of, and that they leave it as it was.

#ifndef TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/check/loss_case.h"
#include "cc/cuda/check/plan_facts.h"

namespace tf_hsm::gpu {

// What a loss and its gradient make.
template <typename T>
struct GradientResults {
  using A = Accumulator<T>;
  std::vector<A> loss, dx, loss_only;
  std::vector<int64_t> rows;
  std::vector<T> dw, db;
  std::string error;
  bool operator==(const GradientResults& o) const {
    return SameBits(loss, o.loss) && SameBits(dx, o.dx) &&
           SameBits(loss_only, o.loss_only) && rows == o.rows &&
           SameBits(dw, o.dw) && SameBits(db, o.db);
  }
};

inline std::vector<char> Bytes(const DeviceBlock& block) {
  std::vector<char> bytes(block.bytes());
  DeviceBlock::Download(block.data(), bytes.size(), bytes.data());
  return bytes;
}

template <typename T>
GradientResults<T> RunGradients(const LossCase<T>& c, int64_t logits) {
  using A = Accumulator<T>;
  const DeviceCase<T> device(c);
  Batch<T> batch = device.batch;
  MemorySizes sizes = SizesOf(batch, logits);
  const DeviceBlock scratch(sizes.backward_scratch);
  sizes.backward_scratch = 0;  // the forward has its own
  const DeviceMemory blocks(sizes, logits);
  const DeviceArray<A> loss_only(c.size);
  GradientResults<T> results;
  results.error =
      Forward<T>(batch, blocks.memory, {loss_only.data(), nullptr, nullptr},
                 CheckStream());
  results.loss_only = loss_only.Download();
  // In two parts: the number of rows is there before the second.
  const DeviceArray<A> loss(c.size), dx(c.size * c.width);
  results.error +=
      PlanForward(batch, blocks.memory, loss.data(), CheckStream());
  int64_t count = 0;
  if (results.error.empty() && c.size > 0) {
    DeviceBlock::Download(NumTouchedRows(batch, blocks.memory), sizeof(count),
                          &count);
  }
  results.error += FinishForward<T>(
      batch, blocks.memory, {loss.data(), dx.data(), nullptr}, CheckStream());
  if (!results.error.empty()) return results;
  if (logits > 0) {
    results.error = MissingWork(batch, blocks.memory, c.needs);
  }
  if (count > MaxTouchedRows(batch)) results.error += "too many touched rows";

  if (ChunkExamples(batch, logits) == 0) {
    batch.labels = batch.inputs = nullptr;
  }
  const Memory memory = {blocks.memory.state, scratch.data(), logits};
  const std::vector<char> before = Bytes(blocks.state);
  const DeviceOutputs<T> out(batch, count + (c.size > 0 ? 3 : 0));
  results.error +=
      out.RunBackward(batch, memory, device.grads.data(), CheckStream());
  if (Bytes(blocks.state) != before) results.error += "another state ";
  results.loss = loss.Download();
  results.dx = dx.Download();
  results.rows = out.rows.Download();
  results.dw = out.dw.Download();
  results.db = out.db.Download();
  while (static_cast<int64_t>(results.rows.size()) > count) {
    if (results.rows.back() != -1) results.error += "no -1 past the rows";
    results.rows.pop_back();
  }
  results.dw.resize(count * c.width);
  results.db.resize(count);
  return results;
}

// `c` has its reference. `logits`: bytes that are kept.
template <typename T>
void CheckGradients(const LossCase<T>& c, const std::string& prefix,
                    int64_t logits) {
  const GradientResults<T> results = RunGradients(c, logits);
  const GradientResults<T> again = RunGradients(c, logits);
  const ReferenceSums& want = c.want;
  Errors loss, loss_only, dx, dw, db;
  loss.AddAll(results.loss, want.loss);
  loss_only.AddAll(results.loss_only, want.loss);
  dx.AddAll(results.dx, want.dx);
  std::vector<int64_t> rows;
  std::vector<double> want_dw, want_db;
  for (size_t row = 0; row < want.touched.size(); ++row) {
    if (!want.touched[row]) continue;
    rows.push_back(row);
    const auto own = want.dw.begin() + row * c.width;
    want_dw.insert(want_dw.end(), own, own + c.width);
    want_db.push_back(want.db[row]);
  }
  std::string error = results.error;
  if (error.empty() && results.rows != rows) error = "wrong rows ";
  dw.AddAll(results.dw, want_dw);
  db.AddAll(results.db, want_db);
  c.Report(
      prefix + (logits > 0 ? "gradients" : "gradients, logits made again"),
      error,
      {{"loss", loss}, {"loss", loss_only}, {"dx", dx}, {"dw", dw}, {"db", db}},
      results == again);
}

template <typename T>
void CheckLoss(const LossCase<T>& c, const std::string& prefix = "") {
  CheckGradients(c, prefix, c.logits);
  if (c.logits > 0) CheckGradients(c, prefix, 0);
}

#ifndef __CUDACC__  // a GPU has no sort or scan that fails when it is asked to

// A sort or a scan that fails is told, and nothing runs on what it did not
// write.
inline void CheckFailures(std::mt19937* rng) {
  // More examples than a plan of one block takes.
  const CheckCase c = {"a sort that fails", FlatTree(5), 2600, 2};
  const LossCase<float> loss(c, Precision::kExact, rng);
  const DeviceCase<float> device(loss);
  const DeviceMemory blocks(device.batch, c.logits);
  int failures = 0, told = 0, wrong = 0;
  for (int call = 0;; ++call) {
    const DeviceOutputs<float> out(device.batch, 0);
    emulate::options.failing_call = call;
    const std::string error =
        out.RunForward(device.batch, blocks.memory, CheckStream());
    const bool failed = emulate::options.failing_call < 0;
    emulate::options.failing_call = -1;
    if (!failed) {
      wrong += !error.empty();
      break;
    }
    ++failures;
    told += !error.empty();
    for (float value : out.dx.Download()) wrong += !std::isnan(value);
  }
  // Two sorts and three scans.
  Line(c.name, failures == 5 && told == failures && wrong == 0,
       std::to_string(told) + " of " + std::to_string(failures) + " told, " +
           std::to_string(wrong) + " wrong");
}

#endif

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_LOSS_CHECK_H_
