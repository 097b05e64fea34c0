// Searches and draws in arrays that are no tree: an error, or an answer of
// classes.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/group_scores_test_support.h"
#include "cc/core/api/sample.h"
#include "cc/core/api/search.h"
#include "cc/core/api/search_test_support.h"
#include "cc/core/testing/test_support.h"

namespace tf_hsm {
namespace {

// Arrays that hold anything give an error or an answer of classes.
void CheckSearches(std::mt19937* rng) {
  CheckCorrupted(false, 400, rng, [&](const Head<float>& head) {
    const int64_t classes = head.tree().num_classes;
    SearchOptions options;
    options.max_classes = 1 + (*rng)() % classes;
    options.beam_width = (*rng)() % 3;
    if ((*rng)() % 3 == 0) options.max_mass = 0.8;
    std::vector<Found<float>> found;
    const std::string error = Find(head.On(Isa::kBaseline), options, &found);
    for (const Found<float>& at : found) {
      Expect(at.calls == 1 || !error.empty(), "garbage: no result");
      Expect(static_cast<int64_t>(at.classes.size()) <= options.max_classes,
             "garbage: too many classes");
      for (const RankedClass<float>& c : at.classes) {
        Expect(c.id >= 0 && c.id < classes, "garbage: no class");
      }
    }
    return !error.empty();
  });
}

// A search computes nothing for a root whose rows begin nowhere. With so many
// examples, the root's fanout counts.
void CheckForgedRoot(std::mt19937* rng) {
  for (int64_t first : {INT64_MIN, INT64_MAX}) {
    Head<float> head = RandomHead<float>({40, 5, 8, 4, 0.5}, false, rng);
    head.owned.offsets[0] = first;
    std::vector<Found<float>> found;
    const std::string error = Find(head.On(Isa::kBaseline), {}, &found);
    Expect(error.rfind("group_offsets[0] = ", 0) == 0, error);
  }
}

// One group below two rows, level after level, doubles the paths. It is found
// out before they are all walked.
void CheckManyPaths(std::mt19937* rng) {
  constexpr int64_t kLevels = 16;
  OwnedTree tree;
  for (int64_t g = 0; g < kLevels; ++g) {
    for (int64_t k = 0; k < 2; ++k) {
      tree.row_below.push_back(g + 1 < kLevels ? g + 1 : ~k);
      tree.row_groups.push_back(g);
    }
    tree.offsets.push_back(2 * (g + 1));
    tree.parents.push_back(2 * g - 1);
  }
  tree.class_rows.resize(kLevels + 1);
  const Head<float> head = RandomHead<float>(tree, 1, 0, false, rng);
  for (double mass : {2.0, 0.9}) {
    SearchOptions options;
    options.max_classes = kLevels + 1;
    options.max_mass = mass;
    std::vector<Found<float>> found;
    const std::string error = Find(head.On(Isa::kBaseline), options, &found);
    Expect(error.find("row_below") != std::string::npos,
           "many paths to one group: '" + error + "'");
  }
}

// Leaves that are missing are an error, not a loop.
void CheckFewLeaves(std::mt19937* rng) {
  OwnedTree tree = RandomTree(6, 4, 0.5, rng);
  int64_t last = -1;
  for (size_t row = 0; row < tree.row_below.size(); ++row) {
    if (tree.row_below[row] >= 0) last = row;
  }
  tree.row_below[last] = ~0;
  const int64_t group = tree.parents.size() - 1;
  const Head<float> head = RandomHead<float>(tree, 3, 4, false, rng);
  SearchOptions options;
  options.max_classes = head.tree().num_classes;
  std::vector<Found<float>> found;
  const std::string error = Find(head.On(Isa::kBaseline), options, &found);
  const bool one_leaf = tree.offsets[group + 1] - tree.offsets[group] == 1;
  Expect(one_leaf ? error.empty()
                  : error.find("fewer leaves than the k") != std::string::npos,
         "few leaves: '" + error + "'");
}

void CheckDraws(std::mt19937* rng) {
  CheckCorrupted(false, 200, rng, [&](const Head<float>& head) {
    const int64_t classes = head.tree().num_classes;
    SampleOptions options;
    options.num_samples = 1 + (*rng)() % 20;
    if ((*rng)() % 3 == 0) options.top_k = 1 + (*rng)() % classes;
    if ((*rng)() % 3 == 0) options.top_p = 0.8;
    std::vector<int64_t> draws(head.batch * options.num_samples, -2);
    const bool good =
        Sample<float>(head.On(Isa::kBaseline), options, draws.data()).empty();
    for (int64_t c : draws) {
      Expect(!good || (c >= -1 && c < classes), "garbage: no class");
    }
    return !good;
  });
}

}  // namespace
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm;
  std::mt19937 rng(1);
  CheckSearches(&rng);
  CheckForgedRoot(&rng);
  for (int i = 0; i < 20; ++i) CheckFewLeaves(&rng);
  CheckManyPaths(&rng);
  CheckDraws(&rng);
  return Summarize();
}
