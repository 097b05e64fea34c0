// One example's search by itself, over trees whose log-probabilities are drawn:
// what it finds against a sort of all classes; that it opens what could matter
// and nothing below a bound; and how many rounds it takes.

#include "cc/core/api/example_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/search_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// A tree, and the log-probabilities of the rows and of the groups.
struct Drawn {
  std::string name;
  std::vector<int64_t> offsets = {0}, row_below;
  std::vector<float> rows, groups;
  int64_t depth = 0;
  Ranking<float> ranking;  // of all classes

  int64_t num_groups() const { return offsets.size() - 1; }
  int64_t num_classes() const { return ranking.size(); }
};

// The tree whose groups of level l have fanouts[l] rows; of one level it is
// flat. `share(fanout)` draws the log-probability of a row in its group.
Drawn Draw(const std::vector<int64_t>& fanouts, const std::string& name,
           const std::function<float(int64_t)>& share) {
  Drawn d;
  d.name = name;
  d.depth = fanouts.size();
  d.groups = {0};
  int64_t first = 0;  // of a level's groups
  for (const int64_t& fanout : fanouts) {
    const bool is_last = &fanout == &fanouts.back();
    const int64_t last = d.groups.size();
    for (int64_t g = first; g < last; ++g) {
      for (int64_t k = 0; k < fanout; ++k) {
        const float log_prob = d.groups[g] + share(fanout);
        d.rows.push_back(log_prob);
        if (is_last) {
          const int64_t c = d.ranking.size();
          d.ranking.push_back({log_prob, c});
          d.row_below.push_back(~c);
        } else {
          d.row_below.push_back(d.groups.size());
          d.groups.push_back(log_prob);
        }
      }
      d.offsets.push_back(d.rows.size());
    }
    first = last;
  }
  std::sort(d.ranking.begin(), d.ranking.end(), ComesFirst<float>);
  return d;
}

// What a search did.
struct Walk {
  Ranking<float> classes;
  std::vector<bool> opened = {};
  int64_t rounds = 0;
};

Walk Search(const Drawn& d, const SearchOptions& options, const Widths& widths,
            const float* bound) {
  Walk walk;
  walk.opened.resize(d.num_groups());
  ExampleSearch<float> search(options, widths);
  if (bound != nullptr) search.SetBound(*bound);
  search.Add({d.groups[0], 0});
  while (!search.Next().empty()) {
    ++walk.rounds;
    for (const Candidate<float> group : std::vector(search.next())) {
      Expect(!walk.opened[group.node], d.name + ": a group is opened twice");
      walk.opened[group.node] = true;
      // As search.cc does, which passes over what is below search.least().
      const float least = search.least();
      bool is_barren = true;
      for (int64_t row = d.offsets[group.node]; row < d.offsets[group.node + 1];
           ++row) {
        if (d.rows[row] < least) continue;
        search.Add({d.rows[row], d.row_below[row]});
        is_barren = false;
      }
      if (is_barren) search.AddNothing();
    }
  }
  const int64_t opened =
      std::count(walk.opened.begin(), walk.opened.end(), true);
  Expect(opened == search.num_opened(), d.name + ": the count of groups");
  std::vector<RankedClass<float>> classes;
  const SearchResult<float> found = search.Finish(&classes);
  walk.classes.assign(found.classes, found.classes + found.num_classes);
  return walk;
}

// The groups of at least this log-probability.
int64_t AtLeast(const Drawn& d, float bound) {
  return std::count_if(d.groups.begin(), d.groups.end(),
                       [&](float log_prob) { return log_prob >= bound; });
}

void Check(const Drawn& d, int64_t k, const Widths& widths, const float* bound,
           const std::string& what) {
  SearchOptions options;
  options.max_classes = k;
  const Walk walk = Search(d, options, widths, bound);
  Ranking<float> want = d.ranking;
  want.resize(std::min<int64_t>(k, want.size()));
  while (bound != nullptr && !want.empty() && want.back().log_prob < *bound) {
    want.pop_back();
  }
  Expect(walk.classes.size() == want.size() && StartsWith(want, walk.classes),
         what + ": not the best classes");
  // What is known in the end, and what of it was known from the beginning.
  const float known = bound == nullptr ? kNone : *bound;
  const bool is_full = static_cast<int64_t>(want.size()) == k;
  const float least = is_full ? std::max(known, want.back().log_prob) : known;
  int64_t opened = 0, inner = 0;
  for (int64_t g = 0; g < d.num_groups(); ++g) {
    opened += walk.opened[g];
    inner += walk.opened[g] && d.row_below[d.offsets[g]] >= 0;
    Expect(walk.opened[g] || d.groups[g] < least,
           what + ": a group that could matter is left out");
    Expect(!walk.opened[g] || d.groups[g] >= known,
           what + ": a group below the bound is opened");
  }
  const int64_t needed = AtLeast(d, least);
  Expect(known < least || opened == needed,
         what + ": more groups are opened than the bound allows");
  // Before there are enough classes, a group that is opened leads on, has a
  // class for the result, or is barren: four of the latter two make the rounds
  // wider by one. Then each opens a level, or four times as many as the one
  // before.
  const double others = opened - inner;
  const double rounds = inner + 2 + std::log1p(others) / std::log(1.25) +
                        d.depth + std::log1p(opened) / std::log(4);
  Expect(walk.rounds <= rounds, what + ": " + std::to_string(walk.rounds) +
                                    " rounds for " + std::to_string(opened) +
                                    " groups");
}

void CheckTree(const Drawn& d, std::mt19937* rng) {
  const int64_t classes = d.num_classes();
  // The widths that search.cc has for one example and for many.
  for (const Widths widths : {Widths{1, 4}, Widths{8, 32}, Widths{1, 16}}) {
    for (int64_t k : {int64_t{1}, int64_t{8}, classes, classes + 5}) {
      const std::string what = d.name + " k=" + std::to_string(k);
      Check(d, k, widths, nullptr, what);
      const int64_t last = std::min(k, classes) - 1;
      for (int64_t at :
           {int64_t{0}, last / 2, last, (last + classes - 1) / 2, classes - 1,
            static_cast<int64_t>((*rng)() % classes)}) {
        // At a class, and between it and the next better one.
        for (const float more : {0.0f, 1e-3f}) {
          const float bound = d.ranking[at].log_prob + more;
          Check(d, k, widths, &bound, what + " bound " + std::to_string(bound));
        }
      }
      for (const float bound : {kNone, -1e30f, 1.0f, -kNone}) {
        Check(d, k, widths, &bound, what + " bound " + std::to_string(bound));
      }
    }
  }
}

void CheckTrees() {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  const std::vector<std::vector<int64_t>> trees = {{1},
                                                   {2},
                                                   {700},
                                                   {26, 27},
                                                   {300, 2},
                                                   {2, 300},
                                                   {9, 9, 9},
                                                   {2, 2, 2, 2, 2, 2, 2, 2, 2},
                                                   std::vector<int64_t>(60, 1)};
  for (const std::vector<int64_t>& fanouts : trees) {
    const std::string name = "fanout " + std::to_string(fanouts[0]) + " x " +
                             std::to_string(fanouts.size());
    CheckTree(Draw(fanouts, name + " uneven",
                   [&](int64_t) { return -4 * std::abs(normal(rng)); }),
              &rng);
    // Nearly, and exactly, alike.
    CheckTree(Draw(fanouts, name + " even",
                   [&](int64_t fanout) {
                     return -std::log(fanout) - std::abs(normal(rng)) / 8;
                   }),
              &rng);
    CheckTree(Draw(fanouts, name + " ties",
                   [&](int64_t) { return -static_cast<float>(rng() % 3); }),
              &rng);
    CheckTree(Draw(fanouts, name + " equal", [](int64_t) { return -1.0f; }),
              &rng);
  }
}

}  // namespace
}  // namespace tf_hsm

int main() {
  tf_hsm::CheckTrees();
  return tf_hsm::Summarize();
}
