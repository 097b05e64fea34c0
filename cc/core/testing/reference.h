// The mathematics of the package in its most readable form, in double.
//
//   z_r  = w_r . x + b_r
//   loss = sum over the rows r of the path of  lse(z over r's group) - z_r
//   dz   = g (softmax(z over the group) - [row is on the path])
//   dx   = sum over the path's groups of  dz W_group
//   dW_r = sum over the examples that pass r's group of  dz_r x;   db_r: dz_r
//
// where g is the gradient of the total with respect to this example's loss.
// With label smoothing s, each group of K rows on the path has the target
//
//   q_k = (1 - s) [row k is on the path] + s u_k,  u_k = 1 / K
//   loss = sum over the path's groups of  lse(z) - sum_k q_k z_k
//   dz   = g (softmax(z over the group) - q)
//
// Towards a prior, u_k is the prior's share of the row in its group, where the
// shares of a group sum to 1.
//
// With a soft cap c, z_r = c tanh(u_r / c) of u_r = w_r . x + b_r, and dz times
// 1 - (z_r / c)^2 is the gradient of u_r. With a z-loss v, the loss of each
// group has v lse(z)^2 more, and dz has 2 v lse(z) softmax(z) g more.
//
// In a pinned tree (tree_view.h) every other row r has the logit z_r = 0, and
// neither weights nor gradients; w_r is that of r's row of the weights.
//
// Everything fast is tested against these lines; nothing else calls them.

#ifndef TF_HSM_CC_CORE_TESTING_REFERENCE_H_
#define TF_HSM_CC_CORE_TESTING_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "cc/core/testing/trees.h"
#include "cc/core/tree/tree_view.h"
#include "cc/core/update/update.h"

namespace tf_hsm {

// What a loss of labels has beside them.
struct ReferenceOptions {
  double smoothing = 0;
  const float* prior = nullptr;  // [rows], the shares; null: none
  double soft_cap = 0;           // 0: none
  double z_loss = 0;
};

// z_r of one row, for w [weight rows, width] and b [weight rows] or null.
inline double ReferenceLogit(const TreeView& tree, int64_t width,
                             const double* w, const double* b, const double* x,
                             int64_t row, double soft_cap = 0) {
  if (!tree.has_weights(row)) return 0;
  const int64_t at = tree.weight_row(row);
  double z = b != nullptr ? b[at] : 0;
  for (int64_t d = 0; d < width; ++d) z += w[at * width + d] * x[d];
  return soft_cap > 0 ? soft_cap * std::tanh(z / soft_cap) : z;
}

// One example: returns its loss in nats and adds its gradients, times g, to
// dx [width], dw [weight rows, width] and db [weight rows], each of which may
// be null. The tree must be a right one, and the label in [0, num_classes). A
// forest's loss is that below the label's root.
inline double ReferenceLoss(const TreeView& tree, int64_t width,
                            const double* w, const double* b, const double* x,
                            int64_t label, double g, double* dx, double* dw,
                            double* db, const ReferenceOptions& options = {}) {
  const double smoothing = options.smoothing, cap = options.soft_cap;
  double loss = 0;
  for (int64_t row = tree.class_rows[label]; row >= 0;) {
    const int64_t group = tree.row_groups[row];
    const int64_t first = tree.group_offsets[group];
    const int64_t fanout = tree.group_offsets[group + 1] - first;
    std::vector<double> z(fanout);
    double max = -INFINITY;
    for (int64_t k = 0; k < fanout; ++k) {
      z[k] = ReferenceLogit(tree, width, w, b, x, first + k, cap);
      max = std::fmax(max, z[k]);
    }
    double sum = 0;
    for (int64_t k = 0; k < fanout; ++k) sum += std::exp(z[k] - max);
    const double lse = max + std::log(sum);
    loss += lse + options.z_loss * lse * lse;
    const double growth = 1 + 2 * options.z_loss * lse;
    for (int64_t k = 0; k < fanout; ++k) {
      const double share =
          options.prior != nullptr ? options.prior[first + k] : 1.0 / fanout;
      const double q = (1 - smoothing) * (first + k == row) + smoothing * share;
      if (q != 0) loss -= q * z[k];
      if (!tree.has_weights(first + k)) continue;
      const double slope = cap > 0 ? 1 - z[k] * z[k] / (cap * cap) : 1;
      const double dz = g * (growth * std::exp(z[k] - lse) - q) * slope;
      const int64_t at = tree.weight_row(first + k);
      if (db != nullptr) db[at] += dz;
      for (int64_t d = 0; d < width; ++d) {
        if (dx != nullptr) dx[d] += dz * w[at * width + d];
        if (dw != nullptr) dw[at * width + d] += dz * x[d];
      }
    }
    row = tree.group_parents[group];
  }
  return loss;
}

// A batch: losses of its examples, and gradients of their sum, each multiplied
// by its `grad`. Without `scales_dx`, dx is the gradient of each loss alone.
struct ReferenceSums {
  std::vector<double> loss, dx, dw, db;
  std::vector<bool> touched;  // [weight rows], by the paths

  ReferenceSums(const TreeView& tree, int64_t width, int64_t batch)
      : loss(batch),
        dx(batch * width),
        dw(tree.num_weight_rows() * width),
        db(tree.num_weight_rows()),
        touched(tree.num_weight_rows()) {}
};

// Null for none.
template <typename V>
const V* DataOrNull(const std::vector<V>& values) {
  return values.empty() ? nullptr : values.data();
}

// An example whose label is negative has no path. `b` is empty for none.
inline ReferenceSums ReferenceBatch(
    const TreeView& tree, int64_t width, const std::vector<double>& w,
    const std::vector<double>& b, const std::vector<double>& x,
    const std::vector<int64_t>& labels, const std::vector<double>& grads,
    bool scales_dx, const ReferenceOptions& options = {}) {
  const int64_t batch = labels.size();
  ReferenceSums sums(tree, width, batch);
  for (int64_t i = 0; i < batch; ++i) {
    if (labels[i] < 0) continue;
    const double* own = x.data() + i * width;
    sums.loss[i] = ReferenceLoss(tree, width, w.data(), DataOrNull(b), own,
                                 labels[i], grads[i], nullptr, sums.dw.data(),
                                 sums.db.data(), options);
    ReferenceLoss(tree, width, w.data(), DataOrNull(b), own, labels[i],
                  scales_dx ? grads[i] : 1, sums.dx.data() + i * width, nullptr,
                  nullptr, options);
    for (int64_t row : PathOf(tree, labels[i])) {
      const int64_t* offsets = tree.group_offsets + tree.row_groups[row];
      for (int64_t r = offsets[0]; r < offsets[1]; ++r) {
        sums.touched[tree.weight_row(r)] = true;
      }
    }
  }
  return sums;
}

// One example of a label tree: the loss in nats of its `labels`, each one in
// [0, num_classes), and its gradients as above.
//
//   p_r  = 1 / (1 + exp(-z_r))
//   loss = sum over the visited groups, over their rows r, of
//          -log(r is positive ? p_r : 1 - p_r)
//   dz   = g (p_r - [r is positive])
//
// A row is positive if it is on the path of a label; the root's group is
// visited, and every group below a positive row.
inline double ReferenceLabelLoss(const TreeView& tree, int64_t width,
                                 const double* w, const double* b,
                                 const double* x,
                                 const std::vector<int64_t>& labels, double g,
                                 double* dx, double* dw, double* db) {
  std::vector<bool> positive(tree.num_rows);
  for (int64_t label : labels) {
    for (int64_t row : PathOf(tree, label)) positive[row] = true;
  }
  double loss = 0;
  for (int64_t row = 0; row < tree.num_rows; ++row) {
    const int64_t parent = tree.group_parents[tree.row_groups[row]];
    if (parent >= 0 && !positive[parent]) continue;
    double z = b != nullptr ? b[row] : 0;
    for (int64_t d = 0; d < width; ++d) z += w[row * width + d] * x[d];
    loss += std::log1p(std::exp(-std::fabs(z))) +
            std::fmax(positive[row] ? -z : z, 0);
    const double dz = g * (1 / (1 + std::exp(-z)) - positive[row]);
    if (db != nullptr) db[row] += dz;
    for (int64_t d = 0; d < width; ++d) {
      if (dx != nullptr) dx[d] += dz * w[row * width + d];
      if (dw != nullptr) dw[row * width + d] += dz * x[d];
    }
  }
  return loss;
}

// The log-probability of each node, log_probs [rows], for one example, given
// the root that it is below.
inline void ReferenceLogProbs(const TreeView& tree, int64_t width,
                              const double* w, const double* b, const double* x,
                              double* log_probs, double soft_cap = 0) {
  for (int64_t group = 0; group < tree.num_groups; ++group) {
    const int64_t first = tree.group_offsets[group];
    const int64_t last = tree.group_offsets[group + 1];
    double max = -INFINITY;
    for (int64_t r = first; r < last; ++r) {
      log_probs[r] = ReferenceLogit(tree, width, w, b, x, r, soft_cap);
      max = std::fmax(max, log_probs[r]);
    }
    double sum = 0;
    for (int64_t r = first; r < last; ++r) sum += std::exp(log_probs[r] - max);
    const int64_t parent = tree.group_parents[group];
    const double above = parent < 0 ? 0 : log_probs[parent];
    for (int64_t r = first; r < last; ++r) {
      log_probs[r] = above + (log_probs[r] - max - std::log(sum));
    }
  }
}

// Likewise of a label tree: each row adds log p_r to that of the row above it.
inline void ReferenceLabelLogProbs(const TreeView& tree, int64_t width,
                                   const double* w, const double* b,
                                   const double* x, double* log_probs) {
  for (int64_t r = 0; r < tree.num_rows; ++r) {
    const double z = ReferenceLogit(tree, width, w, b, x, r);
    const int64_t parent = tree.group_parents[tree.row_groups[r]];
    const double above = parent < 0 ? 0 : log_probs[parent];
    log_probs[r] =
        above + (z < 0 ? z : 0) - std::log1p(std::exp(-std::fabs(z)));
  }
}

// A batch: log p of all nodes, [batch, rows]. `starts` [batch, roots]
// has log p of the roots, which is 0 where it is empty. Without biases, b is
// empty.
inline std::vector<double> ReferenceBatchLogProbs(
    const TreeView& tree, int64_t batch, int64_t width,
    const std::vector<double>& w, const std::vector<double>& b,
    const std::vector<double>& x, const std::vector<double>& starts,
    double soft_cap = 0, bool has_sigmoids = false) {
  std::vector<double> log_probs(batch * tree.num_rows);
  const std::vector<int64_t> roots = RootsOfGroups(tree);
  for (int64_t i = 0; i < batch; ++i) {
    const double* own = x.data() + i * width;
    double* out = log_probs.data() + i * tree.num_rows;
    if (has_sigmoids) {
      ReferenceLabelLogProbs(tree, width, w.data(), DataOrNull(b), own, out);
    } else {
      ReferenceLogProbs(tree, width, w.data(), DataOrNull(b), own, out,
                        soft_cap);
    }
    for (int64_t r = 0; r < tree.num_rows && !starts.empty(); ++r) {
      out[r] += starts[i * tree.num_roots + roots[tree.row_groups[r]]];
    }
  }
  return log_probs;
}

// One step of a rule (update.h) on one number: returns its new value and
// updates its slots. g is its gradient, `mean_square` that of its row's. The
// number first loses the share `decay` of itself.
inline double ReferenceUpdate(UpdateRule rule, const Hyperparameters& hyper,
                              double g, double mean_square, double value,
                              double* slots, double decay = 0) {
  value -= decay * value;
  switch (rule) {
    case UpdateRule::kSgd:
      return value - hyper.learning_rate * g;
    case UpdateRule::kAdagrad:
      mean_square = g * g;
      [[fallthrough]];
    case UpdateRule::kRowwiseAdagrad:
      slots[0] += mean_square;
      return value -
             hyper.learning_rate * g / std::sqrt(slots[0] + hyper.epsilon);
    case UpdateRule::kAdam:
      slots[0] += (1 - hyper.beta_1) * (g - slots[0]);
      slots[1] += (1 - hyper.beta_2) * (g * g - slots[1]);
      return value - hyper.learning_rate * slots[0] /
                         (std::sqrt(slots[1]) + hyper.epsilon);
    case UpdateRule::kRmsprop:
    case UpdateRule::kRmspropMomentum:
    case UpdateRule::kRmspropCentered:
    case UpdateRule::kRmspropCenteredMomentum: {
      slots[0] = hyper.beta_2 * slots[0] + (1 - hyper.beta_2) * g * g;
      double variance = slots[0];
      if (IsCentered(rule)) {
        double& mean = slots[HasMomentum(rule) ? 2 : 1];
        mean = hyper.beta_2 * mean + (1 - hyper.beta_2) * g;
        variance -= mean * mean;
      }
      double change =
          hyper.learning_rate * g / std::sqrt(variance + hyper.epsilon);
      if (HasMomentum(rule)) {
        change = slots[1] = hyper.beta_1 * slots[1] + change;
      }
      return value - change;
    }
    case UpdateRule::kLion: {
      const double c = hyper.beta_1 * slots[0] + (1 - hyper.beta_1) * g;
      slots[0] = hyper.beta_2 * slots[0] + (1 - hyper.beta_2) * g;
      return value - hyper.learning_rate * ((c > 0) - (c < 0));
    }
  }
  return value;
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_TESTING_REFERENCE_H_
