// Which classes a search may find (search.h): one list for all examples, or one
// for each.
//
// Classes are listed by their depth-first ranks. Those below any row are an
// interval of ranks, so that a look into a sorted list tells whether one of
// them is allowed: a row of which none is need not be opened.

#ifndef TF_HSM_CC_CORE_API_CLASS_MASK_H_
#define TF_HSM_CC_CORE_API_CLASS_MASK_H_

#include <algorithm>
#include <cstdint>
#include <string>

namespace tf_hsm {

// Arrays that somebody else owns. Those of a tree may hold anything.
struct ClassMask {
  // [num_rows, 2]: the ranks of the classes at or below a row, from the first
  // to one past the last. Those of siblings ascend.
  const int64_t* row_spans = nullptr;
  const int64_t* ranks = nullptr;  // [num_ranks], not falling in any list
  int64_t num_ranks = 0;
  // [num_lists + 1]: list i is that of the ranks [splits[i], splits[i + 1]).
  const int64_t* splits = nullptr;
  int64_t num_lists = 0;  // 1 for all examples; or as many as these
};

// Returns an empty string, or what is wrong with the lists, whose classes must
// be in [0, num_classes).
std::string CheckMask(const ClassMask& mask, int64_t num_classes);

// A walk over sibling rows, for one example; a mask that is null allows all.
// Rows that are left out cost nothing, whatever is allowed below them.
class AllowedBelow {
 public:
  AllowedBelow(const ClassMask* mask, int64_t example) {
    if (mask == nullptr) return;
    const int64_t list = mask->num_lists == 1 ? 0 : example;
    row_spans_ = mask->row_spans;
    at_ = mask->ranks + mask->splits[list];
    end_ = mask->ranks + mask->splits[list + 1];
  }

  // Whether a class below one of the siblings [first, last] is allowed. They
  // come after those of the call before.
  bool Any(int64_t first, int64_t last) {
    if (row_spans_ == nullptr) return true;
    SkipTo(row_spans_[2 * first]);
    return at_ < end_ && *at_ < row_spans_[2 * last + 1];
  }

 private:
  // Steps that double, and then a binary search: a neighbour is found at once.
  void SkipTo(int64_t rank) {
    int64_t step = 1;
    while (step < end_ - at_ && at_[step] < rank) {
      at_ += step;
      step *= 2;
    }
    at_ = std::lower_bound(at_, at_ + std::min(step, end_ - at_), rank);
  }

  const int64_t* row_spans_ = nullptr;
  const int64_t* at_ = nullptr;  // the first one that is not below the row
  const int64_t* end_ = nullptr;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_CORE_API_CLASS_MASK_H_
