#include "cc/core/api/group_scores.h"

#include <algorithm>

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {
namespace {

// Multiply-adds below which work is not given to another thread.
constexpr int64_t kItemCost = 1 << 18;

// Log-probabilities that are made before they are used.
constexpr int64_t kMaxScores = 1 << 20;

// Some visits to one group.
struct Item {
  GroupSpan span;
  int64_t begin;
  int64_t end;
};

}  // namespace

void SortVisits(std::vector<Visit>* visits) {
  auto before = [](const Visit& a, const Visit& b) {
    return a.group != b.group ? a.group < b.group : a.example < b.example;
  };
  if (!std::is_sorted(visits->begin(), visits->end(), before)) {
    std::sort(visits->begin(), visits->end(), before);
  }
}

template <typename T>
std::string Score(
    const GroupScorer<T>& scorer, const std::vector<Visit>& visits,
    const std::function<void(int64_t, const Accumulator<T>*)>& use) {
  using A = Accumulator<T>;
  const int64_t padded = Padded(scorer.width);
  const int64_t count = visits.size();
  std::vector<Item> items;
  std::vector<int64_t> batches = {0};  // of items
  int64_t cost = 0;
  for (int64_t begin = 0; begin < count;) {
    Item item = {};
    std::string error = GroupAt(scorer.tree, visits[begin].group, &item.span);
    if (!error.empty()) return error;
    const int64_t most =
        std::clamp<int64_t>(kMaxScores / item.span.fanout, 1, kMaxItemExamples);
    item.begin = begin++;
    while (begin < count && begin - item.begin < most &&
           visits[begin].group == item.span.group) {
      ++begin;
    }
    item.end = begin;
    items.push_back(item);
    cost += item.span.fanout * (scorer.width + 16) * (item.end - item.begin);
    if (cost >= kItemCost) {
      batches.push_back(items.size());
      cost = 0;
    }
  }
  if (cost > 0) batches.push_back(items.size());

  auto score = [&](const Item& item) {
    static thread_local std::vector<A> gathered, log_probs;
    const int64_t examples = item.end - item.begin;
    const int64_t first = visits[item.begin].example;
    const A* x = scorer.x + first * padded;
    if (visits[item.end - 1].example - first != examples - 1) {
      gathered.resize(std::max<size_t>(gathered.size(), examples * padded));
      for (int64_t i = 0; i < examples; ++i) {
        std::copy_n(scorer.x + visits[item.begin + i].example * padded, padded,
                    gathered.data() + i * padded);
      }
      x = gathered.data();
    }
    const GroupSpan& span = item.span;
    log_probs.resize(
        std::max<size_t>(log_probs.size(), examples * span.fanout));
    const int64_t offsets[] = {0, span.fanout};
    scorer.table->log_softmax(
        scorer.Rows(span.first_row, offsets, 1, x, examples), log_probs.data(),
        span.fanout);
    for (int64_t i = 0; i < examples; ++i) {
      use(item.begin + i, log_probs.data() + i * span.fanout);
    }
  };
  scorer.parallel(batches.size() - 1, [&](int64_t batch) {
    for (int64_t i = batches[batch]; i < batches[batch + 1]; ++i) {
      score(items[i]);
    }
  });
  return "";
}

#define TF_HSM_INSTANTIATE(T, ...) TF_HSM_MAKE(Score, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm
