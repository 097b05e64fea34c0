// What is made of the best classes of each example, on a GPU.

#ifndef TF_HSM_CC_CUDA_API_BEST_CLASSES_H_
#define TF_HSM_CC_CUDA_API_BEST_CLASSES_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/inference.h"

namespace tf_hsm {
namespace gpu {

// The k best classes of each example, best first, as TopK gives them.
struct BestClasses {
  int64_t size = 0;
  int64_t k = 0;                     // at most kMaxTopK
  const float* log_probs = nullptr;  // [size, k]
  const int64_t* classes = nullptr;  // [size, k]
};

// Fills first [size] with each example's best class, num_pruned [size] with 0.
std::string SplitBest(const BestClasses& best, int64_t* first,
                      int64_t* num_pruned, void* stream);

// Draws classes [size, num_samples] among them, or among the fewest of them
// whose probabilities reach the sum `top_p`, if that is below 1: by
// p ** (1 / temperature), the draw with the number i by the uniform number
// (i, 0) of the seeds. -1 where the probabilities are NaN, or there is no
// class. too_few [size] becomes 1 where all k do not reach the sum, else 0.
std::string DrawFromBest(const BestClasses& best, double top_p,
                         const SampleArguments& arguments, int64_t* classes,
                         int32_t* too_few, void* stream);

// Divides the probabilities of an example's roots by their sum, which is that
// of all classes; NaN where that is 0. Fills bounds [size] so that a search
// finds nothing below roots without probability.
struct RootShares {
  int64_t size = 0;
  int64_t num_roots = 1;
  const float* root_log_probs = nullptr;  // [size, num_roots]
  float* log_shares = nullptr;            // likewise
  float* bounds = nullptr;                // [size]
};
std::string ShareRoots(const RootShares& roots, void* stream);

}  // namespace gpu
}  // namespace tf_hsm

#endif  // TF_HSM_CC_CUDA_API_BEST_CLASSES_H_
