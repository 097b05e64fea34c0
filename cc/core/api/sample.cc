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

// The draws with the indices [begin, end).
template <typename T>
std::string DrawFromRoot(const GroupScorer<T>& scorer,
                         const SampleOptions& options, const Uniform& uniform,
                         int64_t begin, int64_t end, int64_t* classes) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  std::vector<Draw> draws;
  for (int64_t i = begin; i < end; ++i) {
    draws.push_back({0, i / options.num_samples, i});
  }
  std::vector<Visit> visits;
  std::vector<int64_t> starts;  // of each visit's draws
  std::atomic<int64_t> bad_group{-1};
  for (int64_t depth = 0; !draws.empty(); ++depth) {
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
    std::sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) {
      return a.group != b.group ? a.group < b.group : a.index < b.index;
    });
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
  if (options.top_p < 1) search.max_mass = options.top_p;
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
    for (int64_t s = 0; s < options.num_samples; ++s) {
      const int64_t index = example * options.num_samples + s;
      const int64_t i =
          Pick(sums.data(), best.num_classes, uniform.At(index, 0));
      classes[index] = i < 0 ? -1 : best.classes[i].id;
    }
  };
  return FindBestClasses<T>(scorer, search, draw);
}

}  // namespace

template <typename T>
std::string Sample(const GroupScorer<T>& scorer, const SampleOptions& options,
                   int64_t* classes) {
  if (options.num_samples == 0) return "";
  const Uniform uniform(options.seed_0, options.seed_1);
  if (options.top_k > 0 || options.top_p < 1) {
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

#define TF_HSM_INSTANTIATE(T, ...)                                         \
  template std::string Sample(const GroupScorer<T>&, const SampleOptions&, \
                              int64_t*);
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)
#undef TF_HSM_INSTANTIATE

}  // namespace tf_hsm
