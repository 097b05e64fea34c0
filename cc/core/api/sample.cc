#include "cc/core/api/sample.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "cc/core/api/search.h"
#include "cc/core/base/philox.h"
#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Draws that go down together.
constexpr int64_t kMaxDraws = 1 << 20;

// The index whose share of `sums`, running sums of `count` weights, holds the
// point `u` in [0, 1) of the total; -1 where there is no total.
int64_t Pick(const double* sums, int64_t count, double u) {
  const double total = count > 0 ? sums[count - 1] : 0;
  if (!(total > 0) || std::isinf(total)) return -1;
  // Below the total, also where the product is rounded up to it.
  const double point = std::min(u * total, std::nextafter(total, 0.0));
  return std::upper_bound(sums, sums + count, point) - sums;
}

// A draw and where it is.
struct Draw {
  int64_t group;
  int64_t example;
  int64_t index;  // among all draws of all examples
};

// As ShareVisits wants them.
void SortDraws(std::vector<Draw>* draws) {
  std::sort(draws->begin(), draws->end(), [](const Draw& a, const Draw& b) {
    return a.group != b.group ? a.group < b.group : a.index < b.index;
  });
}

// The log-probability of all roots of an example together; NaN where they have
// no probability.
template <typename T>
double LogSumOfRoots(const GroupScorer<T>& scorer, int64_t example) {
  const int64_t roots = scorer.tree.num_roots;
  double most = -INFINITY, sum = 0;
  for (int64_t root = 0; root < roots; ++root) {
    most = std::max<double>(most, scorer.Start(example, root));
  }
  for (int64_t root = 0; root < roots; ++root) {
    sum += std::exp(scorer.Start(example, root) - most);
  }
  return most + std::log(sum);
}

// Puts draws at the roots' groups; those with none get the class -1.
template <typename T>
void DrawRoots(const GroupScorer<T>& scorer, const SampleOptions& options,
               const Uniform& uniform, int64_t begin, int64_t end,
               std::vector<Draw>* draws, int64_t* classes) {
  const TreeView& tree = scorer.tree;
  std::vector<double> sums(tree.num_roots);
  for (int64_t i = begin; i < end;) {
    const int64_t example = i / options.num_samples;
    const double total = LogSumOfRoots(scorer, example);
    double sum = 0;
    for (int64_t root = 0; root < tree.num_roots; ++root) {
      sums[root] = sum += std::exp(scorer.Start(example, root) - total);
    }
    for (; i < end && i / options.num_samples == example; ++i) {
      const int64_t root = Pick(sums.data(), tree.num_roots, uniform.At(i, 0));
      if (root < 0) {
        classes[i] = -1;
      } else {
        draws->push_back({tree.root_group(root), example, i});
      }
    }
  }
  SortDraws(draws);
}

// The draws with the indices [begin, end).
template <typename T>
std::string DrawFromRoot(const GroupScorer<T>& scorer,
                         const SampleOptions& options, const Uniform& uniform,
                         int64_t begin, int64_t end, int64_t* classes) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  std::vector<Draw> draws;
  const bool draws_roots = scorer.root_log_probs != nullptr;
  if (draws_roots) {
    DrawRoots(scorer, options, uniform, begin, end, &draws, classes);
  }
  for (int64_t i = begin; !draws_roots && i < end; ++i) {
    draws.push_back({tree.root_group(0), i / options.num_samples, i});
  }
  std::vector<Visit> visits;
  std::vector<int64_t> starts;  // of each visit's draws
  std::atomic<int64_t> bad_group{-1};
  for (int64_t depth = draws_roots; !draws.empty(); ++depth) {
    ShareVisits(draws, &visits, &starts);
    auto draw = [&](int64_t visit, const A* log_probs) {
      static thread_local std::vector<A> probs;
      static thread_local std::vector<double> sums;
      const int64_t group = visits[visit].group;
      const int64_t first = tree.group_offsets[group];
      const int64_t fanout = tree.group_offsets[group + 1] - first;
      probs.resize(std::max<size_t>(probs.size(), fanout));
      sums.resize(std::max<size_t>(sums.size(), fanout));
      scorer.table->exps(log_probs, fanout, probs.data());
      double sum = 0;
      for (int64_t k = 0; k < fanout; ++k) sums[k] = sum += probs[k];
      for (int64_t i = starts[visit]; i < starts[visit + 1]; ++i) {
        Draw& at = draws[i];
        const int64_t k =
            Pick(sums.data(), fanout, uniform.At(at.index, depth));
        const int64_t below = k < 0 ? -1 : tree.row_below[first + k];
        if (!IsBelow(tree, group, below)) bad_group = group;
        at.group = k < 0 ? -1 : below;
        if (below < 0) classes[at.index] = k < 0 ? -1 : ~below;
      }
    };
    const std::string error = Score<T>(scorer, visits, draw);
    if (!error.empty()) return error;
    if (bad_group >= 0) return NotBelow(tree, bad_group);
    draws.erase(std::remove_if(draws.begin(), draws.end(),
                               [](const Draw& at) { return at.group < 0; }),
                draws.end());
    SortDraws(&draws);
  }
  return "";
}

template <typename T>
std::string DrawFromBest(const GroupScorer<T>& scorer,
                         const SampleOptions& options, const Uniform& uniform,
                         int64_t* classes) {
  using A = Accumulator<T>;
  SearchOptions search;
  search.max_classes =
      options.top_k > 0 ? options.top_k : scorer.tree.num_classes;
  if (options.cuts_all()) search.max_mass = options.top_p;
  auto draw = [&](int64_t example, const SearchResult<A>& best) {
    std::vector<double> sums(best.num_classes);
    double sum = 0;
    for (int64_t i = 0; i < best.num_classes; ++i) {
      const double gap = static_cast<double>(best.classes[i].log_prob) -
                         static_cast<double>(best.classes[0].log_prob);
      // NaN is last, and has no share unless it is the first too.
      const bool none = i > 0 && std::isnan(gap);
      sums[i] = sum += none ? 0 : std::exp(gap / options.temperature);
    }
    int64_t count = best.num_classes;
    if (count > 0 && options.top_k > 0 && options.top_p < 1) {
      const double share = options.top_p * sum;
      count =
          1 + std::lower_bound(sums.begin(), sums.end(), share) - sums.begin();
    }
    for (int64_t s = 0; s < options.num_samples; ++s) {
      const int64_t index = example * options.num_samples + s;
      const int64_t i = Pick(sums.data(), count, uniform.At(index, 0));
      classes[index] = i < 0 ? -1 : best.classes[i].id;
    }
  };
  if (scorer.root_log_probs == nullptr) {
    return FindBestClasses<T>(scorer, search, draw);
  }
  // Relative to all roots, so that top_p is a share; and without classes that
  // have none.
  const int64_t roots = scorer.tree.num_roots;
  std::vector<A> relative(scorer.num_examples * roots);
  for (int64_t i = 0; i < scorer.num_examples; ++i) {
    const double total = LogSumOfRoots(scorer, i);
    for (int64_t root = 0; root < roots; ++root) {
      relative[i * roots + root] =
          static_cast<A>(scorer.Start(i, root) - total);
    }
  }
  const std::vector<A> bounds(scorer.num_examples,
                              -std::numeric_limits<A>::infinity());
  GroupScorer<T> of_share = scorer;
  of_share.root_log_probs = relative.data();
  return FindBestClasses<T>(of_share, search, draw, bounds.data());
}

}  // namespace

SampleOptions Resolved(SampleOptions options, int64_t num_classes) {
  if (options.temperature == 0) {
    options.temperature = options.top_k = options.top_p = 1;
  } else if (options.cuts_all() && options.temperature != 1) {
    options.top_k = std::min(num_classes, kMaxTempered);
  }
  return options;
}

template <typename T>
std::string Sample(const GroupScorer<T>& scorer, const SampleOptions& options,
                   int64_t* classes) {
  if (options.num_samples == 0) return "";
  const Uniform uniform(options.seed_0, options.seed_1);
  if (options.is_restricted()) {
    return DrawFromBest(scorer, options, uniform, classes);
  }
  GroupScorer<T> cooled = scorer;
  // Zero or infinite, it would make NaN of an infinite or of no difference.
  using Limits = std::numeric_limits<Accumulator<T>>;
  cooled.scale = static_cast<Accumulator<T>>(std::clamp<double>(
      1 / options.temperature, Limits::min(), Limits::max()));
  const int64_t count = scorer.num_examples * options.num_samples;
  for (int64_t begin = 0; begin < count; begin += kMaxDraws) {
    const std::string error =
        DrawFromRoot(cooled, options, uniform, begin,
                     std::min(begin + kMaxDraws, count), classes);
    if (!error.empty()) return error;
  }
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(Sample, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
