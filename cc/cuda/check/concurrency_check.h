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

namespace tf_hsm::gpu {

// A batch with memory and outputs of its own, in the tree of its case.
class OwnBatch {
 public:
  explicit OwnBatch(const LossCase<float>& c, const DeviceTree& tree)
      : device_(c),
        memory_(device_.batch, c.logits),
        out_(device_.batch, MaxTouchedRows(device_.batch)) {
    device_.batch.tree = tree.view();
  }

  void RunForward(void* stream) {
    error += out_.RunForward(device_.batch, memory_.memory, stream);
  }
  void RunBackward(void* stream) {
    error += out_.RunBackward(device_.batch, memory_.memory,
                              device_.grads.data(), stream);
  }
  // Reads and overwrites the outputs: the next run must write them again.
  std::vector<std::vector<float>> TakeResults() {
    const std::vector<int64_t> rows = out_.rows.Download();
    const std::vector<std::vector<float>> results = {
        out_.loss.Download(), out_.dx.Download(),
        std::vector<float>(rows.begin(), rows.end()), out_.dw.Download(),
        out_.db.Download()};
    out_.rows.Poison();
    for (auto* array : {&out_.loss, &out_.dx, &out_.dw, &out_.db}) {
      array->Poison();
    }
    return results;
  }

  std::string error;

 private:
  DeviceCase<float> device_;
  const DeviceMemory memory_;
  DeviceOutputs<float> out_;
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
  const DeviceTree tree(c.owned);
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
    WrongLine(what, batches[0].error + batches[1].error, wrong);
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

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_CONCURRENCY_CHECK_H_
