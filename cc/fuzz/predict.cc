// What goes down a tree: log-probabilities and their gradient, those of given
// classes, the search for the best ones, draws, and ranks of labels; of label
// trees the second and the third. On valid trees they agree with each other to
// the bit, and with the scalar reference; whatever the arrays and the
// parameters hold, they stay within their memory.

#include <algorithm>
#include <cmath>

#include "cc/core/api/class_log_probs.h"
#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/label_ranks.h"
#include "cc/core/api/log_probs_test_support.h"
#include "cc/core/api/sample.h"
#include "cc/core/api/search.h"
#include "cc/core/api/search_test_support.h"
#include "cc/fuzz/target.h"

namespace tf_hsm {
namespace {

// NaN is a value like any other.
template <typename A>
bool Same(A a, A b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Other groups as roots, ascending from 0, as many as there were.
template <typename T>
void ForgeRoots(Head<T>* head, Bytes* bytes) {
  std::vector<int64_t>& roots = head->owned.roots;
  const int64_t groups = head->owned.parents.size();
  const int64_t count = roots.size();
  for (int64_t r = 1; r < count; ++r) {
    const int64_t room = groups - (count - r) - roots[r - 1];
    roots[r] = roots[r - 1] + 1 + (*bytes)() % room;
  }
}

// The log-probabilities of all classes, if this is a tree, and their gradient.
template <typename T>
std::vector<Accumulator<T>> FuzzAll(const Head<T>& head,
                                    const GroupScorer<T>& scorer, bool is_tree,
                                    bool is_finite, Bytes* bytes) {
  using A = Accumulator<T>;
  const TreeView& tree = scorer.tree;
  std::vector<int64_t> levels;
  if (!FindLevels(tree, &levels).empty()) return {};
  const bool of_nodes = bytes->Coin();
  const int64_t targets = of_nodes ? tree.num_rows : tree.num_classes;
  std::vector<A> grads = Draw<A>(head.batch * targets, 64, bytes);
  if (!is_finite) MakeSpecial(bytes, &grads);
  const Outputs<A> out = Run<T>(scorer, of_nodes, grads);
  const std::vector<A>& values = out.values;
  if (is_finite) {
    Expect(ProductError<T>(out.dz, head.weights, out.dx, head.batch) <=
               RoundingOf<T>().sum * (tree.num_weight_rows() + 8),
           "dx of log-probabilities");
  }
  if (!of_nodes || !is_tree) return values;
  std::vector<A> of_classes;
  for (int64_t i = 0; i < head.batch; ++i) {
    for (int64_t c = 0; c < tree.num_classes; ++c) {
      of_classes.push_back(
          values[i * tree.num_rows + head.owned.class_rows[c]]);
    }
  }
  return of_classes;
}

// The log-probabilities of all classes of a label tree, by ClassLogProbs.
template <typename T>
std::vector<Accumulator<T>> AllOfLabelTree(const GroupScorer<T>& scorer) {
  const int64_t num_classes = scorer.tree.num_classes;
  std::vector<int64_t> classes(scorer.num_examples * num_classes);
  for (size_t at = 0; at < classes.size(); ++at) classes[at] = at % num_classes;
  std::vector<Accumulator<T>> values(classes.size());
  ClassLogProbs<T>(scorer, classes.data(), num_classes, values.data());
  return values;
}

template <typename T>
void FuzzClasses(const Head<T>& head, const GroupScorer<T>& scorer,
                 const std::vector<Accumulator<T>>& all, Bytes* bytes) {
  const int64_t count = bytes->In(0, 7), num_classes = scorer.tree.num_classes;
  std::vector<int64_t> classes(head.batch * count);
  for (int64_t& c : classes) c = (*bytes)() % num_classes;
  const bool is_forged = !classes.empty() && bytes->In(0, 7) == 0;
  if (is_forged) classes[(*bytes)() % classes.size()] = bytes->Any();
  const bool has_none =
      !classes.empty() && !head.starts.empty() && bytes->Coin();
  if (has_none) classes[(*bytes)() % classes.size()] = -1;
  std::vector<Accumulator<T>> got(classes.size());
  const std::string error =
      ClassLogProbs<T>(scorer, classes.data(), count, got.data());
  if (all.empty() || is_forged) return;
  Expect(error.empty(), error);
  for (size_t at = 0; at < classes.size(); ++at) {
    if (classes[at] < 0) {
      Expect(got[at] == -INFINITY, "log-probability of no class");
      continue;
    }
    Expect(Same(got[at], all[at / count * num_classes + classes[at]]),
           "log-probability of a class");
  }
}

template <typename T>
void FuzzRanks(const Head<T>& head, const GroupScorer<T>& scorer,
               const std::vector<Accumulator<T>>& all, Bytes* bytes) {
  const int64_t num_classes = scorer.tree.num_classes;
  const int64_t k = 1 + (*bytes)() % num_classes;
  std::vector<int64_t> labels(head.batch), ranks(head.batch);
  for (int64_t& label : labels) {
    label = bytes->In(0, 7) == 0 ? -1 : (*bytes)() % num_classes;
  }
  const bool is_forged = head.batch > 0 && bytes->In(0, 7) == 0;
  if (is_forged) labels[(*bytes)() % head.batch] = bytes->Any();
  const std::string error =
      LabelRanks<T>(scorer, labels.data(), k, ranks.data());
  if (all.empty() || is_forged) return;
  Expect(error.empty(), error);
  for (int64_t i = 0; i < head.batch; ++i) {
    int64_t rank = k;
    if (labels[i] >= 0 && std::isfinite(all[i * num_classes + labels[i]])) {
      const auto ranking = Rank(all.data() + i * num_classes, num_classes);
      rank = std::find_if(ranking.begin(), ranking.end(),
                          [&](const auto& c) { return c.id == labels[i]; }) -
             ranking.begin();
    }
    Expect(ranks[i] == std::min(rank, k), "the rank of a label");
  }
}

template <typename T>
void FuzzSearch(const Head<T>& head, const GroupScorer<T>& scorer,
                const std::vector<Accumulator<T>>& all, const OwnedMask& mask,
                Bytes* bytes) {
  using A = Accumulator<T>;
  const int64_t num_classes = scorer.tree.num_classes;
  SearchOptions options;
  const ClassMask allowed = mask.view();
  const bool has_mask = bytes->In(0, 2) == 0;
  if (has_mask) options.allowed = &allowed;
  options.max_classes = 1 + (*bytes)() % num_classes;
  if (bytes->In(0, 3) == 0) options.max_mass = bytes->In(0, 100) / 100.0;
  if (bytes->Coin()) options.beam_width = std::max<int64_t>(bytes->Any(), 0);
  const bool has_bounds = bytes->In(0, 3) == 0;
  std::vector<A> bounds = Draw<A>(head.batch, 255, bytes);
  MakeSpecial(bytes, &bounds);
  std::vector<Found<A>> found;
  const std::string error =
      Find(scorer, options, &found, has_bounds ? bounds.data() : nullptr);
  if (all.empty()) return;
  Expect(error.empty(), error);
  for (int64_t i = 0; i < head.batch; ++i) {
    CheckFound<A>(scorer.tree, all.data() + i * num_classes, i, options,
                  has_mask ? &mask : nullptr, has_bounds ? &bounds[i] : nullptr,
                  found[i], "search");
  }
}

template <typename T>
void FuzzSample(const Head<T>& head, const GroupScorer<T>& scorer, bool is_tree,
                bool is_finite, Bytes* bytes) {
  const double temperatures[] = {1, 0.5, 2, 1e-300, 1e300, 5e-324};
  const int64_t num_classes = scorer.tree.num_classes;
  SampleOptions options;
  options.num_samples = bytes->In(0, 9);
  options.seed_0 = bytes->Any();
  options.seed_1 = bytes->Any();
  options.temperature = temperatures[bytes->In(0, 5)];
  if (bytes->Coin()) options.top_k = 1 + (*bytes)() % num_classes;
  if (bytes->Coin()) options.top_p = (1 + bytes->In(0, 99)) / 100.0;
  std::vector<int64_t> classes(head.batch * options.num_samples, -2);
  const std::string error = Sample<T>(scorer, options, classes.data());
  Expect(!is_tree || error.empty(), error);
  if (!error.empty()) return;
  for (int64_t c : classes) {
    Expect(c < num_classes && c >= (is_finite ? 0 : -1), "a draw is a class");
  }
}

}  // namespace

void Fuzz(Bytes* bytes) {
  WithKernel(bytes, [&](auto zero, Isa isa) {
    using T = decltype(zero);
    Head<T> head = RandomHead<T>(DrawCase(bytes), bytes->Coin(), bytes);
    const bool is_tree = bytes->Coin();
    const bool is_finite = bytes->Coin();
    const double chance = bytes->In(0, 8) / 8.0;
    const OwnedMask mask =
        RandomMask(head.tree(), bytes->Coin() ? 1 : head.batch, chance, bytes);
    if (!is_tree) Corrupt(&head.owned, bytes);
    if (!is_tree && bytes->Coin()) ForgeRoots(&head, bytes);
    if (!is_finite) {
      MakeSpecial(bytes, &head.weights);
      MakeSpecial(bytes, &head.biases);
      MakeSpecial(bytes, &head.x);
      MakeSpecial(bytes, &head.starts);
      head.Pack();
    }
    GroupScorer<T> scorer = head.On(isa, bytes->Coin() ? Serial : Reversed);
    const bool has_sigmoids = !scorer.tree.pinned && bytes->In(0, 3) == 0;
    scorer.has_sigmoids = has_sigmoids;
    std::vector<Accumulator<T>> all =
        has_sigmoids ? AllOfLabelTree(scorer)
                     : FuzzAll(head, scorer, is_tree, is_finite, bytes);
    if (is_tree && is_finite) {
      const std::vector<double> want = WantedLogProbs(head, has_sigmoids);
      const double tolerance = Tolerance(head);
      const TreeView& tree = scorer.tree;
      for (size_t at = 0; at < all.size(); ++at) {
        const int64_t row = tree.class_rows[at % tree.num_classes];
        Near(all[at], want[at / tree.num_classes * tree.num_rows + row],
             tolerance, "log-probability");
      }
    }
    if (!is_tree) all.clear();
    switch (bytes->In(0, has_sigmoids ? 1 : 2)) {
      case 0:
        return FuzzClasses(head, scorer, all, bytes);
      case 1:
        return FuzzSearch(head, scorer, all, mask, bytes);
      default:
        FuzzSample(head, scorer, is_tree, is_finite, bytes);
        return FuzzRanks(head, scorer, all, bytes);
    }
  });
}

}  // namespace tf_hsm
