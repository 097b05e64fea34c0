// The phases of one step of the core, each of them timed.

#ifndef TF_HSM_BENCHMARKS_CORE_STEPS_H_
#define TF_HSM_BENCHMARKS_CORE_STEPS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/core/clock.h"
#include "benchmarks/core/memory.h"
#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/plan/plan.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/tree/tree_view.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

// kTrain is the whole step with plain SGD in place: loss, dx and update.
enum Phase { kPlan, kSort, kForward, kForwardDx, kBackward, kTrain, kPhases };

constexpr const char* kPhaseNames[kPhases] = {
    "plan", "sort", "forward", "with dx", "backward", "SGD step"};

// One phase of one turn.
struct Sample {
  double seconds = 0;
  double bytes = 0;  // of touched weights read, and of their rows written
  double flops = 0;  // products and sums
};

struct Turn {
  std::array<Sample, kPhases> phases;
  int64_t touched_groups = 0;
  int64_t touched_rows = 0;
  // [batch]; from the forward, the forward with dx, and the SGD step.
  std::vector<double> losses[3];
};

// Runs turns on weights that stay as they are: the SGD step, whose rate is 0,
// reads and writes them all the same.
template <typename T>
class Steps {
 public:
  using A = Accumulator<T>;

  Steps(const TreeView& tree, int64_t width, const std::vector<float>& inputs)
      : tree_(tree),
        width_(width),
        batch_(static_cast<int64_t>(inputs.size()) / width),
        inputs_(inputs),
        // Touched rows come first, and only what is touched takes memory.
        dw_(tree.num_rows * width * sizeof(T), /*huge_pages=*/true),
        db_(tree.num_rows) {}

  // One turn with labels [batch]. Returns what is wrong with them, or nothing.
  std::string Run(const std::vector<int64_t>& labels, T* weights, T* biases,
                  Isa isa, const Parallel& parallel, Turn* turn) {
    Plan plan;
    std::string error;
    turn->phases[kPlan].seconds = SecondsOf(
        [&] { error = MakePlan(tree_, labels.data(), batch_, {}, &plan); });
    if (!error.empty()) return error;
    turn->touched_groups = static_cast<int64_t>(plan.nodes.size());
    turn->touched_rows = plan.num_rows;
    const double weight_bytes =
        static_cast<double>(plan.num_rows * width_ * sizeof(T));
    const double product = 2.0 * plan.num_probs * width_;
    Plan training = plan;
    PlanTraining(&training, MaxPartials<T>(width_));

    const KernelTable<T>& kernels = KernelTableFor<T>(isa);
    Grow(plan.num_examples() * Padded(width_), &sorted_);
    Grow(2 * plan.num_passes, &normalizers_);
    const bool keeps = KeepsProbs<T>(plan, width_, kMaxKeptBytes);
    const bool step_keeps = KeepsProbs<T>(training, width_, kMaxStepBytes);
    Grow(std::max(keeps ? plan.num_probs : 0,
                  step_keeps ? training.num_probs : 0),
         &probs_);
    Grow(training.num_partials * PartialStride(width_), &partials_);
    auto time = [&](Phase phase, double bytes, double flops, auto function) {
      turn->phases[phase] = {SecondsOf(function), bytes, flops};
    };

    time(kSort, 0, 0, [&] {
      PackInputs(plan.order.data(), plan.num_examples(), inputs_.data(), width_,
                 parallel, sorted_.data());
    });
    Problem<T> problem;
    problem.plan = &plan;
    problem.width = width_;
    problem.weights = weights;
    problem.biases = biases;
    problem.x = sorted_.data();

    Clear();
    ForwardOutputs<T> outputs;
    outputs.loss = loss_.data();
    time(kForward, weight_bytes, product,
         [&] { Forward(problem, kernels, parallel, outputs); });
    turn->losses[0].assign(loss_.begin(), loss_.end());

    Clear();
    outputs.dx = dx_.data();
    outputs.normalizers = normalizers_.data();
    outputs.probs = keeps ? probs_.data() : nullptr;
    time(kForwardDx, weight_bytes, 2 * product,
         [&] { Forward(problem, kernels, parallel, outputs); });
    turn->losses[1].assign(loss_.begin(), loss_.end());

    const std::vector<A> loss_grads(plan.num_examples(), A(1) / batch_);
    BackwardArguments<T> arguments;
    arguments.loss_grads = loss_grads.data();
    arguments.normalizers = normalizers_.data();
    arguments.probs = outputs.probs;
    arguments.dw = dw_.template data<T>();
    arguments.db = db_.data();
    // Probabilities that were not kept take another read and product.
    time(kBackward, weight_bytes * (keeps ? 1 : 2), product * (keeps ? 1 : 2),
         [&] { Backward(problem, kernels, parallel, arguments); });

    Clear();
    Update<T> update;
    update.weights = weights;
    update.biases = biases;
    problem.plan = &training;
    outputs.probs = step_keeps ? probs_.data() : nullptr;
    arguments.probs = outputs.probs;
    arguments.update = &update;
    arguments.partials = partials_.data();
    arguments.dw = nullptr;
    arguments.db = nullptr;
    time(kTrain, 2 * weight_bytes, 3 * product,
         [&] { TrainStep(problem, kernels, parallel, outputs, arguments); });
    turn->losses[2].assign(loss_.begin(), loss_.end());
    return "";
  }

 private:
  template <typename S>
  static void Grow(int64_t size, std::vector<S>* buffer) {
    if (size > static_cast<int64_t>(buffer->size())) buffer->resize(size);
  }

  void Clear() {
    loss_.assign(batch_, A(0));
    dx_.assign(batch_ * width_, A(0));
  }

  const TreeView tree_;
  const int64_t width_;
  const int64_t batch_;
  const std::vector<float>& inputs_;
  const Memory dw_;
  std::vector<T> db_;
  std::vector<A> sorted_, normalizers_, probs_, partials_, loss_, dx_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_BENCHMARKS_CORE_STEPS_H_
