#include "cc/core/api/class_mask.h"

#include "cc/core/tree/tree_walk.h"

namespace tf_hsm {

std::string CheckMask(const ClassMask& mask, int64_t num_classes) {
  int64_t begin = 0;
  for (int64_t list = 0; list <= mask.num_lists; ++list) {
    const int64_t end = mask.splits[list];
    const int64_t most = list == 0 ? 0 : mask.num_ranks;
    if (end < begin || end > most) {
      return OutOfRange("allowed_splits", list, end, begin, most + 1);
    }
    int64_t least = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t rank = mask.ranks[i];
      if (rank < least || rank >= num_classes) {
        return OutOfRange("allowed_ranks", i, rank, least, num_classes) +
               ", where the ranks of a list ascend";
      }
      least = rank;
    }
    begin = end;
  }
  if (begin == mask.num_ranks) return "";
  return At("allowed_splits", mask.num_lists, begin) + ", but there are " +
         std::to_string(mask.num_ranks) + " allowed_ranks";
}

}  // namespace tf_hsm
