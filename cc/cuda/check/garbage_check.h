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

namespace tf_hsm {
namespace gpu {

template <typename T>
class GarbageCheck {
 public:
  using A = Accumulator<T>;

  GarbageCheck(const CheckCase& c, Precision precision, std::mt19937* rng)
      : tree_(c.tree),
        levels_(c.tree),
        rng_(rng),
        case_(c, precision, rng),
        starts_(DrawStarts<A>(c, c.size, rng)) {
    case_.Smooth(false, rng);
  }

  void Run() {
    for (int array = 0; array < kArrays; ++array) {
      Impossible(array);
      Plausible(array);
    }
  }

 private:
  static constexpr int kArrays = 6;

  static std::vector<int64_t>& ArrayOf(OwnedTree* tree, int array) {
    return array == 0   ? tree->offsets
           : array == 1 ? tree->parents
           : array == 2 ? tree->class_rows
           : array == 3 ? tree->row_groups
           : array == 4 ? tree->ranks
                        : tree->row_below;
  }
  static const char* NameOf(int array) {
    static const char* const kNames[] = {"group_offsets", "group_parents",
                                         "class_rows",    "row_groups",
                                         "class_ranks",   "row_below"};
    return kNames[array];
  }

  // Whether the path of a class, or its rank, reads an entry that was changed.
  bool Reads(const OwnedTree& changed, int64_t label) const {
    if (changed.ranks[label] != tree_.ranks[label]) return true;
    if (changed.class_rows[label] != tree_.class_rows[label]) return true;
    for (int64_t row = tree_.class_rows[label]; row >= 0;) {
      const int64_t g = tree_.row_groups[row];
      if (changed.row_groups[row] != g ||
          changed.offsets[g] != tree_.offsets[g] ||
          changed.offsets[g + 1] != tree_.offsets[g + 1] ||
          changed.parents[g] != tree_.parents[g]) {
        return true;
      }
      row = tree_.parents[g];
    }
    return false;
  }

  void Impossible(int array) {
    OwnedTree changed = tree_;
    std::vector<int64_t>& values = ArrayOf(&changed, array);
    const int64_t wrong[] = {-2, -(int64_t{1} << 62), int64_t{1} << 40,
                             case_.tree.num_rows + 1};
    for (int i = 0; i < 4; ++i) {
      // Not what every path reads.
      const size_t first = array == 0 ? 2 : array == 1 ? 1 : 0;
      if (values.size() > first) {
        values[first + (*rng_)() % (values.size() - first)] = wrong[i];
      }
    }
    // A group that is one row too long.
    if (array == 0) changed.offsets.back() = case_.tree.num_rows + 1;
    for (size_t label = 0; label < case_.broken.size(); ++label) {
      case_.broken[label] = Reads(changed, label);
    }
    case_.device_tree.reset(new DeviceTree(changed, case_.tree));
    case_.MakeReference();
    LossCheck<T>(case_).Run(std::string("wrong ") + NameOf(array) + ", ");
    RunAll();
  }

  void Plausible(int array) {
    OwnedTree changed = tree_;
    std::vector<int64_t>& values = ArrayOf(&changed, array);
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
      const DeviceBlock scratch(LogProbsBytes(batch, false));
      const DeviceArray<A> classes(case_.size * case_.tree.num_classes);
      error += LogProbs(below, levels_.levels, false, classes.data(),
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

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_CHECK_GARBAGE_CHECK_H_
