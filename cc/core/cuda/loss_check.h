// Checks the loss, its gradients and updates in place.

#ifndef TF_HSM_CC_CORE_CUDA_LOSS_CHECK_H_
#define TF_HSM_CC_CORE_CUDA_LOSS_CHECK_H_

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/cuda/check_support.h"
#include "cc/core/reference.h"

namespace tf_hsm {
namespace gpu {

constexpr Hyperparameters kHyper = {0.1, 0.9, 0.99, 1e-3};

// One case: the arrays on both sides and what the reference says.
template <typename T>
class LossCheck {
 public:
  using A = Accumulator<T>;

  LossCheck(const CheckCase& c, Precision precision, std::mt19937* rng)
      : case_(c),
        tree_(c.tree.view()),
        device_tree_(c.tree),
        precision_(precision),
        w_(Draw<T>(tree_.num_rows * c.width, 32, rng)),
        b_(Draw<T>(tree_.num_rows, 64, rng)),
        x_(Draw<T>(c.size * c.width, 64, rng)) {
    const int64_t classes = c.classes > 0 ? c.classes : tree_.num_classes;
    for (int64_t i = 0; i < c.size; ++i) {
      int64_t label = (*rng)() % classes;
      if (i % 13 == 5) label = kIgnored;
      if (i % 17 == 11) label = i % 2 == 0 ? tree_.num_classes : -7;
      labels_.push_back(label);
      grads_.push_back((1 + i % 3) / 4.0);
    }
    if (sizeof(T) >= 4 && precision == Precision::kTensorCores) {
      for (T& x : x_) x = FromDouble<T>(ToDouble(x) / 3);  // not exact in tf32
    }
  }

  void Run() {
    MakeReference();
    for (int64_t logits : {case_.logits, int64_t{0}}) {
      Gradients(logits);
      if (case_.logits == 0) break;
    }
    for (UpdateRule rule : {UpdateRule::kSgd, UpdateRule::kAdagrad,
                            UpdateRule::kRowwiseAdagrad, UpdateRule::kAdam}) {
      // The other rules differ in one function, that of a number.
      const bool other =
          rule == UpdateRule::kAdagrad || rule == UpdateRule::kAdam;
      if (!other || std::is_same<T, float>::value) CheckUpdate(rule);
    }
  }

 private:
  static constexpr int64_t kIgnored = -1;

  bool Counts(int64_t i) const {
    return labels_[i] >= 0 && labels_[i] < tree_.num_classes;
  }

  void MakeReference() {
    const std::vector<double> w = ToDoubles(w_), b = ToDoubles(b_),
                              x = ToDoubles(x_);
    const int64_t width = case_.width;
    loss_.assign(case_.size, 0);
    dx_.assign(case_.size * width, 0);
    dw_.assign(w.size(), 0);
    db_.assign(b.size(), 0);
    std::vector<bool> touched(tree_.num_rows);
    const double* biases = case_.biases ? b.data() : nullptr;
    for (int64_t i = 0; i < case_.size; ++i) {
      if (!Counts(i)) {
        loss_[i] = labels_[i] == kIgnored ? 0 : NAN;
        continue;
      }
      loss_[i] =
          ReferenceLoss(tree_, width, w.data(), biases, x.data() + i * width,
                        labels_[i], grads_[i], nullptr, dw_.data(), db_.data());
      ReferenceLoss(tree_, width, w.data(), biases, x.data() + i * width,
                    labels_[i], 1, dx_.data() + i * width, nullptr, nullptr);
      for (int64_t row = tree_.class_rows[labels_[i]]; row >= 0;) {
        const int64_t g = tree_.row_groups[row];
        for (int64_t r = tree_.group_offsets[g]; r < tree_.group_offsets[g + 1];
             ++r) {
          touched[r] = true;
        }
        row = tree_.group_parents[g];
      }
    }
    for (int64_t r = 0; r < tree_.num_rows; ++r) {
      if (touched[r]) rows_.push_back(r);
    }
  }

  Batch<T> MakeBatch(const DeviceArray<T>& w, const DeviceArray<T>& b,
                     const DeviceArray<T>& x,
                     const DeviceArray<int64_t>& labels) const {
    Batch<T> batch;
    batch.tree = device_tree_.view();
    batch.shape = DescribeTree(tree_);
    batch.weights = w.data();
    batch.biases = case_.biases ? b.data() : nullptr;
    batch.width = case_.width;
    batch.inputs = x.data();
    batch.input_type = TypeOf<T>();
    batch.labels = labels.data();
    batch.size = case_.size;
    batch.num_ignored = 1;
    batch.ignored[0] = kIgnored;
    batch.precision = precision_;
    return batch;
  }

  std::string Name(const std::string& what) const {
    return case_.name + " B=" + std::to_string(case_.size) +
           " D=" + std::to_string(case_.width) + " " + NameOf<T>(precision_) +
           " " + what;
  }
  void Report(const std::string& what, const std::string& error,
              const std::vector<std::pair<const char*, Errors>>& parts,
              bool same) const {
    std::string text = error;
    bool good = error.empty() && same;
    const double tolerance =
        ToleranceOf<T>(precision_, case_.width, DescribeTree(tree_).depth);
    const double store = 2 * RoundingOf<T>(precision_).store;
    for (const auto& [part, errors] : parts) {
      char number[64];
      std::snprintf(number, sizeof(number), "%s %.1e  ", part, errors.worst);
      text += number;
      const bool weights =
          std::strcmp(part, "loss") != 0 && std::strcmp(part, "dx") != 0;
      good = good && errors.worst <=
                         (weights ? (tolerance + store) * std::sqrt(case_.size)
                                  : tolerance);
    }
    if (!same) text += "two runs differ";
    Line(Name(what), good, text);
  }

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
    const DeviceArray<T> w(w_), b(b_), x(x_);
    const DeviceArray<int64_t> labels(labels_);
    const DeviceArray<A> grads(grads_);
    const Batch<T> batch = MakeBatch(w, b, x, labels);
    const MemorySizes sizes = SizesOf(batch, logits);
    const DeviceBlock state(sizes.state), scratch(sizes.scratch);
    const Memory memory = {state.data(), scratch.data(), logits};
    const DeviceArray<A> loss(case_.size), dx(case_.size * case_.width);
    const DeviceArray<A> loss_only(case_.size);
    Results results;
    results.error = Forward<T>(batch, memory,
                               {loss_only.data(), nullptr, nullptr}, nullptr);
    if (results.error.empty()) {
      results.error =
          Forward<T>(batch, memory, {loss.data(), dx.data(), nullptr}, nullptr);
    }
    if (!results.error.empty()) return results;
    int64_t count = 0;
    if (case_.size > 0) {
      DeviceBlock::Download(NumTouchedRows(batch, memory), sizeof(count),
                            &count);
    }
    if (count > MaxTouchedRows(batch)) results.error = "too many touched rows";
    const int64_t capacity = count + (case_.size > 0 ? 3 : 0);
    const DeviceArray<int64_t> rows(capacity);
    const DeviceArray<T> dw(capacity * case_.width), db(capacity);
    results.error +=
        Backward<T>(batch, memory, grads.data(),
                    {capacity, rows.data(), dw.data(), db.data()}, nullptr);
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

  void Gradients(int64_t logits) {
    const Results results = RunGradients(logits);
    const Results again = RunGradients(logits);
    Errors loss, loss_only, dx, dw, db;
    loss.AddAll(results.loss, loss_);
    loss.AddAll(results.loss_only, loss_);
    dx.AddAll(results.dx, dx_);
    std::vector<double> want_dw, want_db;
    for (int64_t row : rows_) {
      for (int64_t d = 0; d < case_.width; ++d) {
        want_dw.push_back(dw_[row * case_.width + d]);
      }
      want_db.push_back(db_[row]);
    }
    std::string error = results.error;
    if (error.empty() && results.rows != rows_) error = "wrong rows ";
    dw.AddAll(results.dw, want_dw);
    db.AddAll(results.db, want_db);
    Report(logits > 0 ? "gradients" : "gradients, logits made again", error,
           {{"loss", loss},
            {"loss", loss_only},
            {"dx", dx},
            {"dw", dw},
            {"db", db}},
           results == again);
  }

  struct State {
    std::vector<T> w, b;
    std::vector<A> slots[2], bias_slots[2];
    std::vector<A> loss, dx;
    std::string error;
    bool operator==(const State& o) const {
      bool same = SameBits(w, o.w) && SameBits(b, o.b) && SameBits(dx, o.dx);
      for (int s = 0; s < 2; ++s) {
        same = same && SameBits(slots[s], o.slots[s]) &&
               SameBits(bias_slots[s], o.bias_slots[s]);
      }
      return same;
    }
  };

  State RunUpdate(UpdateRule rule) const {
    const int64_t slot_width =
        rule == UpdateRule::kRowwiseAdagrad ? 1 : case_.width;
    const DeviceArray<T> w(w_), b(b_), x(x_);
    const DeviceArray<int64_t> labels(labels_);
    const DeviceArray<A> grads(grads_);
    const std::vector<A> start(tree_.num_rows * slot_width, A(0.25));
    const std::vector<A> bias_start(tree_.num_rows, A(0.25));
    const DeviceArray<A> slot_0(start), slot_1(start), bias_slot_0(bias_start),
        bias_slot_1(bias_start);
    const Batch<T> batch = MakeBatch(w, b, x, labels);
    const MemorySizes sizes = SizesOf(batch, case_.logits);
    const DeviceBlock state(sizes.state), scratch(sizes.scratch);
    const Memory memory = {state.data(), scratch.data(), case_.logits};
    const DeviceArray<A> loss(case_.size), dx(case_.size * case_.width);
    Update<T> update;
    update.rule = rule;
    update.hyper = kHyper;
    update.weights = w.data();
    update.biases = case_.biases ? b.data() : nullptr;
    const int slots = NumSlots(rule);
    if (slots > 0) {
      update.weight_slots[0] = slot_0.data();
      update.bias_slots[0] = bias_slot_0.data();
    }
    if (slots > 1) {
      update.weight_slots[1] = slot_1.data();
      update.bias_slots[1] = bias_slot_1.data();
    }
    State result;
    result.error = Forward<T>(batch, memory,
                              {loss.data(), dx.data(), grads.data()}, nullptr);
    result.error += ApplyUpdate(batch, memory, grads.data(), update, nullptr);
    result.w = w.Download();
    result.b = b.Download();
    result.slots[0] = slot_0.Download();
    result.slots[1] = slot_1.Download();
    result.bias_slots[0] = bias_slot_0.Download();
    result.bias_slots[1] = bias_slot_1.Download();
    result.loss = loss.Download();
    result.dx = dx.Download();
    return result;
  }

  void CheckUpdate(UpdateRule rule) {
    const State got = RunUpdate(rule);
    const State again = RunUpdate(rule);
    const int64_t width = case_.width;
    const bool row_wise = rule == UpdateRule::kRowwiseAdagrad;
    std::vector<double> w = ToDoubles(w_), b = ToDoubles(b_);
    std::vector<double> sums(got.slots[0].size(), 0.25);
    std::vector<double> dx = dx_;
    for (size_t i = 0; i < dx.size(); ++i) dx[i] *= grads_[i / width];
    for (int64_t row : rows_) {
      double mean_square = 0;
      for (int64_t d = 0; d < width; ++d) {
        mean_square += dw_[row * width + d] * dw_[row * width + d] / width;
      }
      for (int64_t d = 0; d < width; ++d) {
        double slots[2] = {0.25, 0.25};
        double& value = w[row * width + d];
        value = ReferenceUpdate(rule, kHyper, dw_[row * width + d], mean_square,
                                value, slots);
        sums[row_wise ? row : row * width + d] = slots[0];
      }
      double slots[2] = {0.25, 0.25};
      if (case_.biases) {
        b[row] = ReferenceUpdate(rule, kHyper, db_[row], db_[row] * db_[row],
                                 b[row], slots);
      }
    }
    Errors weights, biases, slots, inputs;
    weights.AddAll(got.w, w);
    biases.AddAll(got.b, b);
    inputs.AddAll(got.dx, dx);
    if (NumSlots(rule) > 0) slots.AddAll(got.slots[0], sums);
    static const char* const kNames[] = {"sgd", "adagrad", "row-wise adagrad",
                                         "adam"};
    Report(kNames[static_cast<int>(rule)], got.error,
           {{"dx", inputs}, {"w", weights}, {"b", biases}, {"slots", slots}},
           got == again);
  }

  const CheckCase& case_;
  const TreeView tree_;
  const DeviceTree device_tree_;
  const Precision precision_;
  std::vector<T> w_, b_, x_;
  std::vector<int64_t> labels_, rows_;
  std::vector<A> grads_;
  std::vector<double> loss_, dx_, dw_, db_;
};

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_CUDA_LOSS_CHECK_H_
