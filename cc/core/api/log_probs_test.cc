// Log-probabilities of all classes and nodes, and their gradient: every ISA and
// element type against the scalar reference, on random trees and ragged sizes;
// the same bits whatever the order in which items run and whatever the other
// examples; and infinite and NaN parameters.

#include "cc/core/api/log_probs.h"

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/log_probs_test_support.h"
#include "cc/core/testing/reference.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// The gradient by the chain rule over the paths to all targets, the leaves of
// the classes or all rows: log p is the negative of a loss.
template <typename T>
Outputs<double> WantedGrads(const Head<T>& head, bool of_nodes,
                            const std::vector<Accumulator<T>>& grads) {
  TreeView tree = head.tree();
  std::vector<int64_t> all_rows(tree.num_rows);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  const int64_t targets = of_nodes ? tree.num_rows : tree.num_classes;
  if (of_nodes) tree.class_rows = all_rows.data();
  const std::vector<double> w = ToDoubles(head.weights);
  const std::vector<double> b = ToDoubles(head.biases);
  const std::vector<double> x = ToDoubles(head.x);
  Outputs<double> want;
  const int64_t rows = tree.num_weight_rows();
  want.dz.resize(head.batch * rows);
  want.dx.resize(head.batch * head.width);
  want.roots.resize(head.batch * tree.num_roots);
  const std::vector<int64_t> roots = RootsOfGroups(tree);
  for (int64_t i = 0; i < head.batch; ++i) {
    for (int64_t c = 0; c < targets; ++c) {
      const double g = grads[i * targets + c];
      if (g == 0) continue;
      const int64_t root = roots[tree.row_groups[tree.class_rows[c]]];
      want.roots[i * tree.num_roots + root] += g;
      ReferenceLoss(tree, head.width, w.data(), DataOrNull(b),
                    x.data() + i * head.width, c, -g,
                    want.dx.data() + i * head.width, nullptr,
                    want.dz.data() + i * rows, {0, nullptr, head.soft_cap});
    }
  }
  return want;
}

template <typename A>
void CompareGrads(const Outputs<A>& got, const Outputs<double>& want,
                  double tolerance, const std::string& name) {
  NearAll(got.dz, want.dz, tolerance, name + " dz");
  NearAll(got.dx, want.dx, tolerance, name + " dx");
  NearAll(got.roots, want.roots, tolerance, name + " by roots");
}

template <typename T>
void Check(const Head<T>& head, Isa isa, const std::string& name,
           std::mt19937* rng) {
  using A = Accumulator<T>;
  const TreeView tree = head.tree();
  const int64_t rows = tree.num_rows;
  const std::vector<double> want = WantedLogProbs(head);
  const double tolerance = Tolerance(head);
  const Outputs<A> nodes = Run<T>(head.On(isa), true, {});
  const Outputs<A> classes = Run<T>(head.On(isa), false, {});
  for (size_t i = 0; i < want.size(); ++i) {
    Near(nodes.values[i], want[i], tolerance, name + " log p");
    Expect(!(nodes.values[i] > 0), name + ": a probability above 1");
  }
  bool same = SameBits(nodes.groups, classes.groups);
  for (int64_t i = 0; i < head.batch; ++i) {
    for (int64_t c = 0; c < tree.num_classes; ++c) {
      same = same && SameBits<A>({nodes.values[i * rows + tree.class_rows[c]]},
                                 {classes.values[i * tree.num_classes + c]});
    }
    for (int64_t g = 0, root = 0; g < tree.num_groups; ++g) {
      const int64_t parent = tree.group_parents[g];
      const A above = parent < 0 ? head.On(isa).Start(i, root++)
                                 : nodes.values[i * rows + parent];
      same =
          same && SameBits<A>({above}, {nodes.groups[i * tree.num_groups + g]});
    }
  }
  Expect(same, name + ": other bits for classes, nodes and groups");

  for (int64_t i : {int64_t{0}, head.batch / 2, head.batch - 1}) {
    if (i < 0 || i >= head.batch) continue;
    const Outputs<A> one = Run<T>(head.On(isa, i, i + 1), true, {});
    Expect(SameBits(one.values,
                    std::vector<A>(nodes.values.begin() + i * rows,
                                   nodes.values.begin() + (i + 1) * rows)),
           name + ": the other examples change the bits");
  }

  for (bool of_nodes : {false, true}) {
    const std::vector<A> grads = RandomGrads(head, of_nodes, rng);
    if (grads.empty()) continue;
    const std::string what = name + (of_nodes ? " of nodes" : "");
    const Outputs<A> out = Run<T>(head.On(isa), of_nodes, grads);
    const Outputs<A> again = Run<T>(head.On(isa, Reversed), of_nodes, grads);
    Expect(SameBits(out.values, again.values) &&
               SameBits(out.groups, again.groups) &&
               SameBits(out.dz, again.dz) && SameBits(out.dx, again.dx) &&
               SameBits(out.roots, again.roots),
           what + ": the order of items changes the bits");
    double size = 0;  // of all gradients that meet in a node or in dx
    for (A g : grads) size += std::fabs(g) / head.batch;
    CompareGrads(out, WantedGrads(head, of_nodes, grads),
                 tolerance * (1 + size), what);
  }
}

// A group of so many rows that a work item holds fewer examples.
void CheckWide(Isa isa, std::mt19937* rng) {
  OwnedTree tree;
  while (tree.class_rows.size() < 24000) tree = RandomTree(2, 40000, 0, rng);
  const Head<float> head = RandomHead<float>(tree, 50, 3, true, rng);
  const std::vector<double> want = WantedLogProbs(head);
  const Outputs<float> out = Run<float>(head.On(isa), true, {});
  NearAll(out.values, want, Tolerance(head), "a wide group");
}

// A row that has siblings and lies below another one, a leaf or not; or -1.
int64_t FindRow(const TreeView& tree, bool is_leaf) {
  for (int64_t row = tree.group_offsets[1]; row < tree.num_rows; ++row) {
    if (HasSiblings(tree, row) && (tree.row_below[row] < 0) == is_leaf) {
      return row;
    }
  }
  return -1;
}

// Parameters that are not finite: what passes them has no probability or no
// number, as in the reference; all else keeps its bits.
template <typename T>
void CheckSpecial(Isa isa, const std::string& name, std::mt19937* rng) {
  using A = Accumulator<T>;
  Head<T> head;
  int64_t inner = -1, leaf = -1;
  while (inner < 0 || leaf < 0) {
    head = RandomHead<T>({6, 19, 12, 5, 0.5}, true, rng);
    inner = FindRow(head.tree(), false);
    leaf = FindRow(head.tree(), true);
  }
  const TreeView tree = head.tree();
  const int64_t last_group = tree.num_groups - 1;
  const double tolerance = Tolerance(head);
  const Outputs<A> before = Run<T>(head.On(isa), true, {});
  const auto compare = [&](const Head<T>& changed, const std::string& what) {
    const Outputs<A> out = Run<T>(changed.On(isa), true, {});
    const std::vector<double> want = WantedLogProbs(changed);
    NearAll(out.values, want, tolerance, name + " " + what);
    return out;
  };
  for (double value : kSpecialValues) {
    for (int64_t row : {leaf, inner}) {
      Head<T> changed = head;
      changed.biases[row] = FromDouble<T>(value);
      compare(changed, "bias " + std::to_string(value));
      changed = head;
      for (int64_t d = 0; d < head.width; ++d) {
        changed.weights[row * head.width + d] = FromDouble<T>(value);
      }
      compare(changed, "weights " + std::to_string(value));
    }
    // One example alone.
    Head<T> changed = head;
    changed.x[2 * head.width + 3] = FromDouble<T>(value);
    changed.Pack();
    const Outputs<A> out = compare(changed, "input " + std::to_string(value));
    bool same = true;
    for (int64_t at = 0; at < head.batch * tree.num_rows; ++at) {
      same = same && (at / tree.num_rows == 2 ||
                      SameBits<A>({out.values[at]}, {before.values[at]}));
    }
    Expect(same, name + ": an input changes other examples");
  }
  Head<T> changed = head;
  for (int64_t r = tree.group_offsets[last_group]; r < tree.num_rows; ++r) {
    changed.biases[r] = FromDouble<T>(-INFINITY);
  }
  compare(changed, "a group without probability");

  // What lies below a row that is switched off gets no gradient, where none
  // reaches it, and gives none.
  for (int64_t row : {leaf, inner}) {
    changed = head;
    changed.biases[row] = FromDouble<T>(-INFINITY);
    const std::vector<double> want = WantedLogProbs(changed);
    for (bool of_nodes : {false, true}) {
      const int64_t targets = of_nodes ? tree.num_rows : tree.num_classes;
      std::vector<A> grads = RandomGrads(head, of_nodes, rng);
      for (int64_t i = 0; i < head.batch; ++i) {
        for (int64_t c = 0; c < targets; ++c) {
          const int64_t at = of_nodes ? c : tree.class_rows[c];
          if (std::isinf(want[i * tree.num_rows + at])) {
            grads[i * targets + c] = 0;
          }
        }
      }
      CompareGrads(Run<T>(changed.On(isa), of_nodes, grads),
                   WantedGrads(changed, of_nodes, grads), 40 * tolerance,
                   name + " below a row that is off");
    }
  }
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(const Head<T>& head, Isa isa, const std::string& name,
                     bool, std::mt19937* rng) {
    Check(head, isa, name, rng);
  }
  template <typename T>
  static void OfType(Isa isa, const std::string& kernel, std::mt19937* rng) {
    CheckSpecial<T>(isa, kernel, rng);
  }
  static void Others(std::mt19937* rng) {
    for (Isa isa : SupportedIsas()) CheckWide(isa, rng);
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
