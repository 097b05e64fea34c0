// Searches among allowed classes: how many groups are opened, and masks that
// are none. search_test.cc compares what they find.

#include "cc/core/api/class_mask.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cc/core/api/search_test_support.h"

namespace tf_hsm {
namespace {

// Counts the groups that a search opens, on one thread.
int64_t num_opened = 0;
void (*counted)(const GroupRows<float>&, float*, int64_t) = nullptr;
void CountAndScore(const GroupRows<float>& rows, float* out, int64_t stride) {
  num_opened += rows.num_examples;
  counted(rows, out, stride);
}

// A search for all allowed classes opens each group above such a class once,
// and no other; a search for fewer opens no more. Without a mask it opens all.
void CheckOpened(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({6, 9, 300, 6, 0.5}, true, rng);
  const TreeView tree = head.tree();
  KernelTable<float> table = KernelTableFor<float>(Isa::kBaseline);
  counted = table.log_softmax;
  table.log_softmax = CountAndScore;
  GroupScorer<float> scorer = head.On(Isa::kBaseline);
  scorer.table = &table;
  SearchOptions options;
  auto opened = [&](int64_t k, const ClassMask* mask) {
    options.max_classes = k;
    options.allowed = mask;
    num_opened = 0;
    Find(scorer, options);
    return num_opened;
  };
  Expect(opened(tree.num_classes, nullptr) == head.batch * tree.num_groups,
         "all groups are opened for all classes");
  int64_t last = head.batch * tree.num_groups;
  for (double chance : {0.3, 0.03, 0.003, 0.0}) {
    const OwnedMask owned = RandomMask(tree, head.batch, chance, rng);
    const ClassMask mask = owned.view();
    int64_t needed = 0;
    for (int64_t i = 0; i < head.batch; ++i) {
      std::vector<bool> is_above(tree.num_groups);
      for (int64_t c = 0; c < tree.num_classes; ++c) {
        if (!owned.Has(i, tree.class_ranks[c])) continue;
        for (int64_t row : PathOf(tree, c))
          is_above[tree.row_groups[row]] = true;
      }
      needed += std::count(is_above.begin(), is_above.end(), true);
    }
    Expect(opened(tree.num_classes, &mask) == needed, "groups above a class");
    Expect(opened(1, &mask) <= needed, "no group without an allowed class");
    Expect(needed < last, "fewer classes, fewer groups");
    last = needed;
  }
  Expect(last == 0, "nothing is opened for no class");
}

// Lists that are none are an error that names the place; a row's span may be
// anything.
void CheckGarbage(std::mt19937* rng) {
  const Head<float> head = RandomHead<float>({4, 5, 12, 4, 0.5}, true, rng);
  const TreeView tree = head.tree();
  const int64_t odd[] = {INT64_MIN, -1, 0, 1, tree.num_classes, INT64_MAX};
  int64_t errors = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    OwnedMask owned =
        RandomMask(tree, round % 2 == 0 ? 1 : head.batch, 0.4, rng);
    std::vector<int64_t>* const arrays[] = {&owned.spans, &owned.ranks,
                                            &owned.splits};
    std::vector<int64_t>& array = *arrays[(*rng)() % 3];
    if (array.empty()) continue;
    array[(*rng)() % array.size()] = odd[(*rng)() % std::size(odd)];
    const ClassMask mask = owned.view();
    SearchOptions options;
    options.max_classes = 3;
    options.beam_width = (*rng)() % 3;
    options.allowed = &mask;
    std::vector<Found<float>> found;
    const std::string error = Find(head.On(Isa::kBaseline), options, &found);
    if (!error.empty()) {
      ++errors;
      Expect(error.rfind("allowed_", 0) == 0, error);
      continue;
    }
    for (const Found<float>& at : found) {
      Expect(at.calls == 1 && at.classes.size() <= 3, "garbage: a result");
    }
  }
  Expect(errors > kRounds / 4 && errors < kRounds, "garbage: errors");
}

}  // namespace
}  // namespace tf_hsm

int main() {
  std::mt19937 rng(1);
  for (int i = 0; i < 5; ++i) tf_hsm::CheckOpened(&rng);
  tf_hsm::CheckGarbage(&rng);
  return tf_hsm::Summarize();
}
