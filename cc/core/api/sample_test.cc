// Classes drawn by their probabilities: draws against the shares of the
// reference and the same uniform numbers (philox_test.cc), for every ISA and
// element type; the same draws whatever the order in which items
// run and whatever the other examples; and infinite and NaN parameters.

#include "cc/core/api/sample.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/base/philox.h"
#include "cc/core/testing/draws.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

template <typename T>
std::vector<int64_t> Run(const GroupScorer<T>& scorer,
                         const SampleOptions& options) {
  std::vector<int64_t> classes(scorer.num_examples * options.num_samples, -2);
  const std::string error = Sample<T>(scorer, options, classes.data());
  Expect(error.empty(), error);
  return classes;
}

// log p of all nodes given their roots, with every group's logits divided by
// the temperature.
template <typename T>
std::vector<double> Cooled(const Head<T>& head, double temperature) {
  Head<double> cooled;
  cooled.owned = head.owned;
  cooled.batch = head.batch;
  cooled.width = head.width;
  cooled.weights = ToDoubles(head.weights);
  cooled.biases = ToDoubles(head.biases);
  cooled.x = ToDoubles(head.x);
  for (double& w : cooled.weights) w /= temperature;
  for (double& b : cooled.biases) b /= temperature;
  cooled.soft_cap = head.soft_cap / temperature;
  return WantedLogProbs(cooled);
}

// The shares of the classes that top_k and top_p leave, in the order in which
// they are searched, best first: p ** (1 / temperature) of the k best, of which
// top_p is a share, as it is of all probabilities without top_k.
template <typename A>
std::vector<double> WantedShares(const A* values, int64_t num_classes,
                                 const SampleOptions& options,
                                 std::vector<int64_t>* classes) {
  classes->resize(num_classes);
  for (int64_t c = 0; c < num_classes; ++c) (*classes)[c] = c;
  std::stable_sort(classes->begin(), classes->end(),
                   [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  if (options.top_k > 0) classes->resize(options.top_k);
  std::vector<double> shares;
  double total = 0;
  for (int64_t c : *classes) {
    total += shares.emplace_back(
        std::exp((values[c] - values[classes->front()]) / options.temperature));
  }
  for (double& share : shares) share /= total;
  double mass = 0, kept = 0;
  size_t count = 0;
  for (; count < shares.size(); ++count) {
    if (options.top_p < 1 && mass >= options.top_p) break;
    kept += shares[count];
    mass +=
        options.top_k > 0 ? shares[count] : std::exp(values[(*classes)[count]]);
  }
  shares.resize(count);
  for (double& share : shares) share /= kept;
  classes->resize(shares.size());
  return shares;
}

// Each uniform number lies in the share of what it draws, but for rounding.
template <typename T>
void Check(const Head<T>& head, const SampleOptions& given, Isa isa,
           const std::string& name) {
  using A = Accumulator<T>;
  const TreeView tree = head.tree();
  const SampleOptions options = Resolved(given, tree.num_classes);
  const std::vector<int64_t> got = Run(head.On(isa), options);
  Expect(got == Run(head.On(isa, Reversed), options),
         name + ": the order of items changes the draws");
  // The first examples draw the same without the others.
  const int64_t some = head.batch / 2;
  const std::vector<int64_t> first = Run(head.On(isa, 0, some), options);
  Expect(std::equal(first.begin(), first.end(), got.begin()),
         name + ": the other examples change the draws");

  const bool restricted = options.is_restricted();
  const std::vector<double> log_probs =
      Cooled(head, restricted ? 1 : options.temperature);
  // Relative to the sum of a forest's roots.
  Head<T> relative = head;
  std::vector<std::vector<double>> shares_of_roots(head.batch);
  for (int64_t i = 0; !head.starts.empty() && i < head.batch; ++i) {
    const auto begin = relative.starts.begin() + i * tree.num_roots;
    const auto end = begin + tree.num_roots;
    double log_sum;
    shares_of_roots[i] = SharesOfRoots<A>({begin, end}, &log_sum);
    std::transform(begin, end, begin,
                   [=](A start) { return static_cast<A>(start - log_sum); });
  }
  const std::vector<A> values = ClassValues(relative.On(isa));
  const Uniform uniform(options.seed_0, options.seed_1);
  // The error of a group's shares. Shares of given classes differ in their last
  // digits alone.
  const double too_close =
      restricted ? (head.starts.empty() ? 1e-12 : Tolerance(head))
                 : 4 * Tolerance(head) / Depth(tree) / options.temperature;
  std::vector<int64_t> classes;
  std::vector<double> shares;
  for (size_t index = 0; index < got.size(); ++index) {
    const int64_t example = index / options.num_samples;
    double miss;
    if (restricted) {
      if (index % options.num_samples == 0) {
        shares = WantedShares(values.data() + example * tree.num_classes,
                              tree.num_classes, options, &classes);
      }
      const auto at = std::find(classes.begin(), classes.end(), got[index]);
      miss = MissOf(shares, at - classes.begin(), uniform.At(index, 0));
    } else {
      miss = MissOfDraw(tree, log_probs.data() + example * tree.num_rows,
                        shares_of_roots[example], uniform, index, got[index]);
    }
    Expect(miss < too_close, name + ": another class");
  }
}

// Whether no class is better, or no sibling of the rows on its path.
bool IsBest(const TreeView& tree, const double* log_probs, int64_t label,
            bool of_classes) {
  constexpr double kRounding = 1e-5;
  if (of_classes) {
    for (int64_t c = 0; c < tree.num_classes; ++c) {
      if (log_probs[tree.class_rows[c]] >
          log_probs[tree.class_rows[label]] + kRounding) {
        return false;
      }
    }
    return true;
  }
  for (int64_t row : PathOf(tree, label)) {
    const int64_t* offsets = tree.group_offsets + tree.row_groups[row];
    const double best =
        *std::max_element(log_probs + offsets[0], log_probs + offsets[1]);
    if (best > log_probs[row] + kRounding) return false;
  }
  return true;
}

// Temperatures at the ends of their range: the best child of every group, or
// any child that is possible at all.
template <typename T>
void CheckTemperatures(Isa isa, const std::string& name, std::mt19937* rng) {
  Head<T> head;
  do {
    head = RandomHead<T>({5, 9, 10, 6, 0.5}, true, rng);
  } while (!HasSiblings(head.tree(), 0));
  head.biases[0] = FromDouble<T>(-INFINITY);
  const TreeView tree = head.tree();
  SampleOptions options;
  options.num_samples = 50;
  options.seed_0 = 5;
  const std::vector<double> log_probs = WantedLogProbs(head);
  for (int64_t top_k : {int64_t{0}, tree.num_classes}) {
    options.top_k = top_k;
    for (double temperature : {1e-7, 1e-20, 1e-36, 1e-60, 1e-320}) {
      options.temperature = temperature;
      const std::vector<int64_t> got = Run(head.On(isa), options);
      for (size_t index = 0; index < got.size(); ++index) {
        const double* p =
            log_probs.data() + index / options.num_samples * tree.num_rows;
        Expect(got[index] >= 0 && IsBest(tree, p, got[index], top_k > 0),
               name + ": a low temperature");
      }
    }
    for (double temperature : {1e3, 1e20, 1e60, 1e300}) {
      options.temperature = temperature;
      for (int64_t c : Run(head.On(isa), options)) {
        Expect(c >= 0, name + ": a high temperature");
        Expect(c < 0 || std::isfinite(log_probs[tree.class_rows[c]]),
               name + ": an impossible class");
      }
    }
  }
}

// No number, no class: of an example, or of the draws that meet it.
template <typename T>
void CheckSpecial(Isa isa, const std::string& name, std::mt19937* rng) {
  for (int64_t top_k : {0, 3}) {
    for (double top_p : {1.0, 0.8}) {
      Head<T> head;
      while (head.owned.class_rows.size() < 6) {
        head = RandomHead<T>({6, 19, 12, 5, 0.5}, true, rng);
      }
      SampleOptions options;
      options.num_samples = 40;
      options.top_k = top_k;
      options.top_p = top_p;
      const std::vector<int64_t> before = Run(head.On(isa), options);
      Head<T> changed = head;
      changed.x[2 * head.width + 3] = FromDouble<T>(NAN);
      changed.Pack();
      const std::vector<int64_t> got = Run(changed.On(isa), options);
      for (size_t index = 0; index < got.size(); ++index) {
        Expect(got[index] ==
                   (static_cast<int64_t>(index) / options.num_samples == 2
                        ? -1
                        : before[index]),
               name + ": an example that is NaN");
      }
      // A class that is off is not drawn, nor one whose group is NaN.
      for (double value : {kSpecialValues[0], kSpecialValues[2]}) {
        changed = head;
        const int64_t row = (*rng)() % changed.biases.size();
        changed.biases[row] = FromDouble<T>(value);
        const auto values = ClassValues(changed.On(isa));
        const int64_t classes = head.tree().num_classes;
        const std::vector<int64_t> draws = Run(changed.On(isa), options);
        for (size_t index = 0; index < draws.size(); ++index) {
          const int64_t example = index / options.num_samples;
          const int64_t c = draws[index];
          Expect(c < 0 || values[example * classes + c] > -INFINITY,
                 name + ": an impossible class");
          Expect(c >= 0 || std::isnan(value) || !HasSiblings(head.tree(), row),
                 name + ": no class");
        }
      }
    }
  }
}

// What RunChecks calls.
struct Checks {
  template <typename T>
  static void OfHead(const Head<T>& head, Isa isa, const std::string& name,
                     bool bias, std::mt19937* rng) {
    const int64_t classes = head.tree().num_classes;
    SampleOptions options;
    options.seed_0 = (*rng)();
    options.seed_1 = (*rng)();
    options.num_samples = bias ? 3 : 40;
    options.temperature = bias ? 0.5 : 1;
    Check(head, options, isa, name);
    options.top_p = bias ? 0.3 : 0.9;
    Check(head, options, isa, name + " top_p");
    options.temperature = bias ? 0 : 1;
    Check(head, options, isa, name + " temperature 0");
    options.temperature = bias ? 0.5 : 1;
    options.top_k = 1 + classes / 3;
    Check(head, options, isa, name + " top_k and top_p");
    options.top_p = 1;
    Check(head, options, isa, name + " top_k");
    options.num_samples = 0;
    Check(head, options, isa, name + " nothing");
  }
  template <typename T>
  static void OfType(Isa isa, const std::string& kernel, std::mt19937* rng) {
    CheckTemperatures<T>(isa, kernel, rng);
    CheckSpecial<T>(isa, kernel, rng);
  }
  static void Others(std::mt19937* rng) {
    // So many draws that they go down in parts; and 10,000 levels.
    const Isa best = SupportedIsas().back();
    SampleOptions options;
    options.num_samples = 400000;
    Check(RandomHead<float>({3, 2, 3, 3, 0.5}, true, rng), options, best,
          "many draws");
    Head<float> deep = RandomHead<float>({2, 5, 10000, 3, 0}, true, rng);
    options.num_samples = 20;
    Check(deep, options, best, "10,000 levels");
  }
};

}  // namespace
}  // namespace tf_hsm

int main() { return tf_hsm::RunChecks<tf_hsm::Checks>(); }
