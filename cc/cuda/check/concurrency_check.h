// Checks batches that run at the same time: on two streams, and from two
// threads of the host, which share a tree. Each must give the bits that it
// gives alone. The emulation runs one launch at a time, in any order.

#ifndef TF_HSM_CC_CUDA_CHECK_CONCURRENCY_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_CONCURRENCY_CHECK_H_

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/cuda/check/loss_case.h"

namespace tf_hsm {
namespace gpu {

// A batch with memory and outputs of its own, in the tree of its case.
class OwnBatch {
 public:
  explicit OwnBatch(const LossCase<float>& c, const DeviceTree& tree)
      : device_(c),
        memory_(device_.batch, c.logits),
        capacity_(MaxTouchedRows(device_.batch)),
        loss_(c.size),
        dx_(c.size * c.width),
        rows_(capacity_),
        dw_(capacity_ * c.width),
        db_(capacity_) {
    device_.batch.tree = tree.view();
  }

  void RunForward(void* stream) {
    error += Forward<float>(device_.batch, memory_.memory,
                            {loss_.data(), dx_.data(), nullptr}, stream);
  }
  void RunBackward(void* stream) {
    error += Backward<float>(
        device_.batch, memory_.memory, device_.grads.data(),
        {capacity_, rows_.data(), dw_.data(), db_.data()}, stream);
  }
  // Reads and overwrites the outputs: the next run must write them again.
  std::vector<std::vector<float>> TakeResults() {
    std::vector<float> rows;
    for (int64_t row : rows_.Download()) rows.push_back(row);
    const std::vector<std::vector<float>> results = {
        loss_.Download(), dx_.Download(), rows, dw_.Download(), db_.Download()};
    loss_.Poison();
    dx_.Poison();
    rows_.Poison();
    dw_.Poison();
    db_.Poison();
    return results;
  }

  std::string error;

 private:
  DeviceCase<float> device_;
  const DeviceMemory memory_;
  const int64_t capacity_;
  DeviceArray<float> loss_, dx_;
  DeviceArray<int64_t> rows_;
  DeviceArray<float> dw_, db_;
};

// Few examples are bound by launches: plan, inputs, ForwardLarge, HotLogits,
// HotRows and WalkPaths; lists, terms, BackwardLarge, HotGradients and
// MergeRows.
inline void CheckLaunches(std::mt19937* rng) {
  const CheckCase c = {"", TwoLevelTree(1024), 400, 3};
  const LossCase<float> loss(c, Precision::kExact, rng);
  OwnBatch batch(loss, *loss.device_tree);
  const int64_t before = num_launches;
  batch.RunForward(CheckStream());
  const int64_t between = num_launches;
  batch.RunBackward(CheckStream());
  const int64_t forward = between - before, backward = num_launches - between;
  Line("launches of 400 examples",
       batch.error.empty() && forward <= 6 && backward <= 5,
       batch.error + std::to_string(forward) + " forward, " +
           std::to_string(backward) + " backward");
}

inline void CheckConcurrency(int64_t classes, int64_t size, int64_t width,
                             std::mt19937* rng) {
  constexpr int kBatches = 2, kRounds = 3;
  const CheckCase c = {"at once", TwoLevelTree(classes), size, width};
  // The widths differ: a launch must not change another's shared memory.
  CheckCase narrow = c;
  narrow.width = width / 2;
  const LossCase<float> cases[kBatches] = {{c, Precision::kExact, rng},
                                           {narrow, Precision::kExact, rng}};
  const DeviceTree tree(c.tree);
  OwnBatch batches[kBatches] = {OwnBatch(cases[0], tree),
                                OwnBatch(cases[1], tree)};
  std::vector<std::vector<float>> alone[kBatches];
  for (int i = 0; i < kBatches; ++i) {
    batches[i].RunForward(CheckStream());
    batches[i].RunBackward(CheckStream());
    alone[i] = batches[i].TakeResults();
  }
  auto check = [&](const char* what) {
    int64_t wrong = 0;
    for (int i = 0; i < kBatches; ++i) {
      const std::vector<std::vector<float>> results = batches[i].TakeResults();
      for (size_t part = 0; part < results.size(); ++part) {
        wrong += !SameBits(results[part], alone[i][part]);
      }
    }
    const std::string error = batches[0].error + batches[1].error;
    Line(what, error.empty() && wrong == 0, error + WrongText(wrong));
  };

  const DeviceStream streams[kBatches];
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kBatches; ++i) batches[i].RunForward(streams[i].Use());
    for (int i = 0; i < kBatches; ++i) batches[i].RunBackward(streams[i].Use());
  }
  check("two streams at once");

  std::vector<std::thread> threads;
  for (OwnBatch& batch : batches) {
    threads.emplace_back([&batch] {
      for (int round = 0; round < kRounds; ++round) {
        batch.RunForward(CheckStream());
        batch.RunBackward(CheckStream());
      }
      WaitForDevice();
    });
  }
  for (std::thread& thread : threads) thread.join();
  check("two threads on one tree");
}

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_CONCURRENCY_CHECK_H_
