// Checks what wrong arrays of a tree do: no kernel hangs or leaves its arrays.
//
// With numbers that no tree has, examples whose path reads one have the loss
// NaN and no gradient, and all others the one of the right tree. With numbers
// that another tree might have, only that nothing else is written.

#ifndef TF_HSM_CC_CUDA_CHECK_GARBAGE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_GARBAGE_CHECK_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/check/loss_check.h"

namespace tf_hsm::gpu {

template <typename T>
class GarbageCheck {
 public:
  using A = Accumulator<T>;

  GarbageCheck(const CheckCase& c, Precision precision, std::mt19937* rng)
      : tree_(c.owned),
        levels_(c.owned),
        rng_(rng),
        case_(c, precision, rng),
        starts_(DrawStarts<A>(c, c.size, rng)) {
    case_.Smooth(false, rng);
  }

  void Run() {
    // What every path reads of an array comes first, and stays right.
    constexpr Array kArrays[] = {{"group_offsets", &OwnedTree::offsets, 2},
                                 {"group_parents", &OwnedTree::parents, 1},
                                 {"class_rows", &OwnedTree::class_rows, 0},
                                 {"row_groups", &OwnedTree::row_groups, 0},
                                 {"class_ranks", &OwnedTree::ranks, 0},
                                 {"row_below", &OwnedTree::row_below, 0}};
    for (const Array& array : kArrays) {
      Impossible(array);
      Plausible(array);
    }
  }

 private:
  struct Array {
    const char* name;
    std::vector<int64_t> OwnedTree::* values;
    size_t first;  // that may be wrong
  };

  // Whether the path of a class, or its rank, reads an entry that was changed.
  bool Reads(const OwnedTree& changed, int64_t label) const {
    if (changed.ranks[label] != tree_.ranks[label]) return true;
    if (changed.class_rows[label] != tree_.class_rows[label]) return true;
    for (int64_t row : PathOf(case_.tree, label)) {
      const int64_t g = tree_.row_groups[row];
      if (changed.row_groups[row] != g ||
          changed.offsets[g] != tree_.offsets[g] ||
          changed.offsets[g + 1] != tree_.offsets[g + 1] ||
          changed.parents[g] != tree_.parents[g]) {
        return true;
      }
    }
    return false;
  }

  void Impossible(const Array& array) {
    OwnedTree changed = tree_;
    std::vector<int64_t>& values = changed.*array.values;
    const size_t first = array.first;
    const int64_t wrong[] = {-2, -(int64_t{1} << 62), int64_t{1} << 40,
                             case_.tree.num_rows + 1};
    for (int i = 0; i < 4; ++i) {
      if (values.size() > first) {
        values[first + (*rng_)() % (values.size() - first)] = wrong[i];
      }
    }
    // A group that is one row too long.
    if (array.values == &OwnedTree::offsets) {
      values.back() = case_.tree.num_rows + 1;
    }
    for (size_t label = 0; label < case_.broken.size(); ++label) {
      case_.broken[label] = Reads(changed, label);
    }
    case_.device_tree.reset(new DeviceTree(changed, case_.tree));
    case_.MakeReference();
    CheckLoss(case_, std::string("wrong ") + array.name + ", ");
    RunAll();
  }

  void Plausible(const Array& array) {
    OwnedTree changed = tree_;
    std::vector<int64_t>& values = changed.*array.values;
    if ((*rng_)() % 2 == 0) {
      std::shuffle(values.begin(), values.end(), *rng_);
    } else {
      for (int64_t& value : values) value = values[(*rng_)() % values.size()];
    }
    case_.device_tree.reset(new DeviceTree(changed, case_.tree));
    RunAll();
  }

  // Everything that reads the arrays; only the guards of its memory tell.
  void RunAll() {
    const int before = num_overruns;
    std::string error;
    {
      const DeviceCase<T> device(case_);
      const Batch<T>& batch = device.batch;
      const A* grads = device.grads.data();
      const DeviceOutputs<T> out(batch, MaxTouchedRows(batch));
      const DeviceArray<Hyperparameters> hyper({Hyperparameters{}});
      DeviceUpdate<T> update;
      update.hyper = hyper.data();
      update.weights = device.w.data();
      update.biases = case_.biases ? device.b.data() : nullptr;
      for (int64_t logits = case_.logits;; logits = 0) {
        const DeviceMemory blocks(batch, logits);
        const Memory& memory = blocks.memory;
        error += out.RunForward(batch, memory, CheckStream());
        error += out.RunBackward(batch, memory, grads, CheckStream());
        error += ApplyUpdate(batch, memory, grads, update, CheckStream());
        if (logits == 0) break;
      }
      const DeviceArray<A> starts(starts_);
      Batch<T> below = batch;
      if (!starts_.empty()) below.root_log_probs = starts.data();
      const int64_t chunk = case_.size;
      const DeviceBlock scratch(LogProbsBytes(batch, false, chunk));
      const DeviceArray<A> classes(case_.size * case_.tree.num_classes);
      const DeviceArray<A> groups(case_.size * case_.tree.num_groups);
      error += LogProbs<T>(below, levels_.levels, chunk,
                           {false, classes.data(), groups.data()},
                           scratch.data(), CheckStream());
      SampleArguments arguments;
      const DeviceBlock sample_scratch(SampleBytes(batch, arguments));
      const DeviceArray<int64_t> drawn(case_.size);
      error += Sample(below, levels_.levels, arguments, drawn.data(),
                      sample_scratch.data(), CheckStream());
      for (int64_t id : drawn.Download()) {
        if (id < -1 || id >= case_.tree.num_classes) error += "a wrong draw ";
      }
    }
    if (num_overruns > before) error += "written out of bounds ";
    if (!error.empty()) Line(case_.name + " garbage", false, error);
  }

  const OwnedTree& tree_;
  const DeviceLevels levels_;
  std::mt19937* rng_;
  LossCase<T> case_;
  const std::vector<A> starts_;
};

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_GARBAGE_CHECK_H_
