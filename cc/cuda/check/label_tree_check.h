// Checks label trees: losses, gradients and steps of label sets, and
// predictions.

#ifndef TF_HSM_CC_CUDA_CHECK_LABEL_TREE_CHECK_H_
#define TF_HSM_CC_CUDA_CHECK_LABEL_TREE_CHECK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/plan/label_plan.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/update_state.h"
#include "cc/cuda/api/label_tree.h"
#include "cc/cuda/check/log_probs_grad_check.h"
#include "cc/cuda/check/loss_check.h"
#include "cc/cuda/check/top_k_check.h"

namespace tf_hsm::gpu {

template <typename T>
struct LabelTreeCase : CheckCase {
  using A = Accumulator<T>;

  // Draws weights, inputs and up to `most` labels of each example; the first
  // has none, and the same label may stand in a set twice.
  LabelTreeCase(const CheckCase& c, int64_t most, Precision given_precision,
                std::mt19937* rng)
      : CheckCase(c),
        tree(owned.view()),
        precision(given_precision),
        w(Draw<T>(tree.num_rows * width, 32, rng)),
        b(Draw<T>(biases ? tree.num_rows : 0, 64, rng)),
        x(Draw<T>(size * width, 64, rng)),
        want(tree, width, size) {
    const std::vector<double> wide_w = ToDoubles(w), wide_b = ToDoubles(b);
    const std::vector<double> wide_x = ToDoubles(x);
    std::vector<int64_t> padded(size * most, -1);
    for (int64_t i = 0; i < size; ++i) {
      grads.push_back((1 + i % 3) / 4.0);
      std::vector<int64_t> own;
      for (int64_t at = i * most; at < (i + 1) * most && i > 0; ++at) {
        if ((*rng)() % 2 == 0) continue;
        padded[at] = (*rng)() % tree.num_classes;
        own.push_back(padded[at]);
      }
      const double* xi = wide_x.data() + i * width;
      want.loss[i] = ReferenceLabelLoss(
          tree, width, wide_w.data(), DataOrNull(wide_b), xi, own, 1,
          want.dx.data() + i * width, nullptr, nullptr);
      ReferenceLabelLoss(tree, width, wide_w.data(), DataOrNull(wide_b), xi,
                         own, grads[i], nullptr, want.dw.data(),
                         want.db.data());
    }
    error = MakeLabelPlan(tree, padded.data(), size, most, {-1}, Serial, &plan);
    for (const Node& node : plan.plan.nodes) {
      std::fill_n(want.touched.begin() + node.first_row, node.fanout, true);
    }
  }

  const TreeView tree;
  const Precision precision;
  const std::vector<T> w, b, x;
  std::vector<A> grads;
  LabelPlan plan;
  std::string error;
  ReferenceSums want;
};

// A case on the device.
template <typename T>
struct DeviceLabelTree {
  explicit DeviceLabelTree(const LabelTreeCase<T>& c)
      : w(c.w), b(c.b), x(c.x), grads(c.grads) {
    // The counts of a tree; no kernel follows its arrays.
    batch.tree.num_rows = c.tree.num_rows;
    batch.tree.num_groups = c.tree.num_groups;
    batch.weights = w.data();
    if (c.biases) batch.biases = b.data();
    batch.width = c.width;
    batch.inputs = x.data();
    batch.input_type = kElementType<T>;
    batch.precision = c.precision;
    bytes = PlanVisits(c.plan, &batch);
    copy = std::make_unique<DeviceArray<char>>(bytes);
    batch.device_visits = copy->data();
  }

  const DeviceArray<T> w, b, x;
  const DeviceArray<Accumulator<T>> grads;
  std::vector<char> bytes;
  std::unique_ptr<DeviceArray<char>> copy;
  Batch<T> batch;
};

template <typename T>
GradientResults<T> RunLabelTree(const LabelTreeCase<T>& c) {
  using A = Accumulator<T>;
  const DeviceLabelTree<T> device(c);
  const Batch<T>& batch = device.batch;
  MemorySizes sizes = SizesOf(batch, 0);
  const DeviceBlock scratch(sizes.backward_scratch);
  sizes.backward_scratch = 0;  // the forward has its own
  const DeviceMemory blocks(sizes, 0);
  const DeviceArray<A> loss_only(c.size), loss(c.size), dx(c.size * c.width);
  GradientResults<T> results;
  results.error =
      Forward<T>(batch, blocks.memory, {loss_only.data(), nullptr, nullptr},
                 CheckStream());
  results.error += Forward<T>(batch, blocks.memory,
                              {loss.data(), dx.data(), nullptr}, CheckStream());
  results.error += MissingWork(batch, blocks.memory, c.needs);
  int64_t count = 0;
  if (batch.size > 0) {
    DeviceBlock::Download(NumTouchedRows(batch, blocks.memory), sizeof(count),
                          &count);
  }
  const DeviceArray<int64_t> rows(count);
  const DeviceArray<T> dw(count * c.width), db(count);
  results.error += Backward<T>(
      batch, {blocks.memory.state, scratch.data(), 0}, device.grads.data(),
      {count, rows.data(), dw.data(), db.data()}, CheckStream());
  results.loss_only = loss_only.Download();
  results.loss = loss.Download();
  results.dx = dx.Download();
  results.rows = rows.Download();
  results.dw = dw.Download();
  results.db = db.Download();
  return results;
}

// A step by SGD, of which dx is `grads` times the gradient of each loss.
template <typename T>
GradientResults<T> RunLabelTreeStep(const LabelTreeCase<T>& c) {
  using A = Accumulator<T>;
  const DeviceLabelTree<T> device(c);
  const DeviceMemory blocks(device.batch, 0);
  const DeviceArray<A> loss(c.size), dx(c.size * c.width);
  const DeviceArray<Hyperparameters> hyper({kHyper});
  DeviceUpdate<T> update;
  update.hyper = hyper.data();
  update.weights = device.w.data();
  if (c.biases) update.biases = device.b.data();
  const A* grads = device.grads.data();
  GradientResults<T> results;
  results.error =
      TrainStep<T>(device.batch, blocks.memory, {loss.data(), dx.data(), grads},
                   grads, update, CheckStream());
  results.loss = loss.Download();
  results.dx = dx.Download();
  results.dw = device.w.Download();
  results.db = device.b.Download();
  return results;
}

template <typename T>
void CheckLabelTree(const CheckCase& check_case, int64_t most,
                    Precision precision, std::mt19937* rng) {
  const LabelTreeCase<T> c(check_case, most, precision, rng);
  const std::string name =
      LineName<T>("labels, " + c.name, c.size, c.width, precision, "");
  if (!c.error.empty()) return Line(name, false, c.error);
  const ReferenceSums& want = c.want;
  const auto [store, sum] = RoundingOf<T>();
  // A loss sums a term of each row, dx a row of each visit.
  const double tolerance =
      ToleranceOf<T>(precision, c.width, c.tree.num_groups) +
      sum * c.tree.num_rows;
  const double of_weights = (tolerance + store) * std::sqrt(c.size);
  auto report = [&](const char* what, const GradientResults<T>& got, bool same,
                    const std::vector<double>& want_dx,
                    const std::vector<double>& want_dw,
                    const std::vector<double>& want_db) {
    Errors loss, dx, dw, db;
    loss.AddAll(got.loss, want.loss);
    dx.AddAll(got.dx, want_dx);
    dw.AddAll(got.dw, want_dw);
    db.AddAll(got.db, want_db);
    Line(name + what,
         got.error.empty() && same && loss.worst <= tolerance &&
             dx.worst <= tolerance && dw.worst <= of_weights &&
             db.worst <= of_weights,
         got.error +
             TextOf({{"loss", loss}, {"dx", dx}, {"dw", dw}, {"db", db}}) +
             (same ? "" : "two runs differ"));
  };
  std::vector<int64_t> rows;
  std::vector<double> dw, db;
  for (int64_t row = 0; row < c.tree.num_rows; ++row) {
    if (!want.touched[row]) continue;
    rows.push_back(row);
    const auto own = want.dw.begin() + row * c.width;
    dw.insert(dw.end(), own, own + c.width);
    db.push_back(want.db[row]);
  }
  GradientResults<T> got = RunLabelTree(c);
  if (got.rows != rows) got.error += "wrong rows ";
  if (!SameBits(got.loss, got.loss_only)) got.error += "another loss ";
  report("gradients", got, got == RunLabelTree(c), want.dx, dw, db);

  State<double> after =
      MakeState<double>(UpdateRule::kSgd, c.tree.num_rows, c.width,
                        ToDoubles(c.w), ToDoubles(c.b));
  ReferenceUpdateRows(want.touched, want.dw, want.db, c.width, UpdateRule::kSgd,
                      &after);
  std::vector<double> dx = want.dx;
  for (size_t i = 0; i < dx.size(); ++i) dx[i] *= c.grads[i / c.width];
  const GradientResults<T> step = RunLabelTreeStep(c);
  report("step", step, step == RunLabelTreeStep(c), dx, after.w, after.b);

  CheckCase predicted = check_case;
  predicted.name = "labels, " + c.name;
  predicted.sigmoids = true;
  const InferenceCase<T> inference(predicted, precision, rng);
  CheckLogProbs(inference, inference.batch, "log_probs");
  CheckClassLogProbs(inference, rng);
  if constexpr (kSumsInFloat<T>) TopKCheck<T>(inference).Run();
}

// `most` labels of each example, for trees whose groups are small, large, and
// visited by many.
inline void CheckLabelTrees(std::mt19937* rng) {
  const struct {
    CheckCase check_case;
    int64_t most;
  } cases[] = {
      {{"empty batch", FlatTree(9), 0, 5}, 3},
      {{"no labels", TwoLevelTree(50), 9, 5}, 0},
      {{"binary", BinaryTree(5), 40, 20}, 4},
      {CheckCase{"flat", FlatTree(203), 37, 44, kCutRows}.WithoutBiases(), 60},
      {CheckCase{"slabs", FlatTree(70), 9, 100}.Emulated(24 << 10, kSlabs), 5},
      {CheckCase{"half items", FlatTree(141), 37, 44}.OnlyFloat().Emulated(
           58 << 10, kHalfItems),
       5},
      {{"many examples", FlatTree(40), 300, 12, kCutExamples}, 9},
      {{"ragged", RandomTree(9, 45, 0.3, rng), 34, 37}, 7},
  };
  for (const auto& [check_case, most] : cases) {
#ifndef __CUDACC__
    emulate::options.shared_bytes = check_case.shared_bytes;
#endif
    for (Precision precision : {Precision::kExact, Precision::kTensorCores}) {
      CheckLabelTree<float>(check_case, most, precision, rng);
      if (check_case.only_float) continue;
      CheckLabelTree<bfloat16>(check_case, most, precision, rng);
      CheckLabelTree<half>(check_case, most, precision, rng);
    }
    if (!check_case.only_float) {
      CheckLabelTree<double>(check_case, most, Precision::kExact, rng);
    }
  }
}

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_CHECK_LABEL_TREE_CHECK_H_
