// The log-probabilities of groups for examples: what search.h, sample.h and
// class_log_probs.h share.
//
// They visit groups, each for some examples, and need all of a group's
// log-probabilities at each visit. The visits of many examples are made
// together, so that the weights of a group are read once for all of them.

#ifndef TF_HSM_CC_CORE_API_GROUP_SCORES_H_
#define TF_HSM_CC_CORE_API_GROUP_SCORES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cc/core/base/parallel.h"
#include "cc/core/base/types.h"
#include "cc/core/table/kernel_table.h"
#include "cc/core/tree/tree_view.h"

namespace tf_hsm {

// A batch of inputs and the parameters that take them down the tree.
template <typename T>
struct GroupScorer {
  using A = Accumulator<T>;
  TreeView tree;
  const T* weights = nullptr;  // [weight rows, width]
  const T* biases = nullptr;   // [weight rows], or null
  int64_t width = 0;
  QuantizedRows quantized;  // in place of weights, or none
  const A* x = nullptr;     // [num_examples, Padded(width)]
  int64_t num_examples = 0;
  // The log-probability of each root for each example, where its tree starts:
  // [num_examples, num_roots]; null: 0.
  const A* root_log_probs = nullptr;
  A logit_soft_cap = 0;       // see GroupRows
  A scale = 1;                // of all logits
  bool has_sigmoids = false;  // see GroupRows
  const KernelTable<T>* table = nullptr;
  Parallel parallel;

  A Start(int64_t example, int64_t root) const {
    return root_log_probs == nullptr
               ? A(0)
               : root_log_probs[example * tree.num_roots + root];
  }

  // The kernel's arguments for groups from `first_row`, whose offsets are at
  // `offsets`, and examples from `x`.
  GroupRows<T> Rows(int64_t first_row, const int64_t* offsets, int64_t groups,
                    const A* examples, int64_t count) const {
    const int64_t first = tree.weight_row(first_row);
    return {weights == nullptr ? nullptr : weights + first * width,
            biases == nullptr ? nullptr : biases + first,
            width,
            examples,
            count,
            offsets,
            groups,
            logit_soft_cap,
            scale,
            has_sigmoids,
            tree.pinned,
            quantized.From(first)};
  }
};

// An example at a group; `slot` is for who asks.
struct Visit {
  int64_t group;
  int64_t example;
  int64_t slot;
};

// Sorts the visits by group, then example, as Score wants them.
void SortVisits(std::vector<Visit>* visits);

// The visits of items that are sorted by group, then example: one visit for all
// items [(*starts)[i], (*starts)[i + 1]) of the same group and example.
template <typename Item>
void ShareVisits(const std::vector<Item>& items, std::vector<Visit>* visits,
                 std::vector<int64_t>* starts) {
  visits->clear();
  starts->clear();
  for (size_t i = 0; i < items.size(); ++i) {
    if (visits->empty() || visits->back().group != items[i].group ||
        visits->back().example != items[i].example) {
      visits->push_back({items[i].group, items[i].example, 0});
      starts->push_back(i);
    }
  }
  starts->push_back(items.size());
}

// Calls use(i, log_probs) once for each visit i, on any thread: log_probs
// [fanout] are those of the rows of its group, given the group. Returns an
// empty string, or what is wrong with the tree, with nothing called.
template <typename T>
std::string Score(
    const GroupScorer<T>& scorer, const std::vector<Visit>& visits,
    const std::function<void(int64_t, const Accumulator<T>*)>& use);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_GROUP_SCORES_H_
