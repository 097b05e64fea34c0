// What a trained model answers on a GPU: the log-probabilities of all classes,
// the best ones, and draws. See gpu.h for what holds throughout.
//
// The loss takes the same `batch`, whose labels ClassLogProbs alone reads here.
// `levels` belong to the batch's tree (levels.h).
//
// What goes down a forest begins at each root with the log-probability of that
// root, batch.root_log_probs.

#ifndef TF_HSM_CC_CUDA_API_INFERENCE_H_
#define TF_HSM_CC_CUDA_API_INFERENCE_H_

#include <cstdint>
#include <string>

#include "cc/cuda/api/gpu.h"
#include "cc/cuda/api/levels.h"

namespace tf_hsm::gpu {

constexpr int64_t kMaxTopK = 1024;

// The log-probabilities of all nodes or of all classes, which have a gradient,
// and of the groups. cc/core/api/log_probs.h has the formulas.
template <typename A>
struct AllLogProbs {
  bool of_nodes = false;
  A* values = nullptr;  // [size, rows] with of_nodes, else [size, classes]
  A* groups = nullptr;  // [size, groups], of the parent row or of the root
};

// Without of_nodes it takes at most `chunk` examples at a time. `scratch` has
// LogProbsBytes.
template <typename T>
int64_t LogProbsBytes(const Batch<T>& batch, bool of_nodes, int64_t chunk);
template <typename T>
std::string LogProbs(const Batch<T>& batch, const Levels& levels, int64_t chunk,
                     const AllLogProbs<Accumulator<T>>& out, void* scratch,
                     void* stream);

// How much a search does at a time.
struct SearchShape {
  int64_t examples = 0;
  int64_t columns = 0;   // rows of the tree; at least the largest group's
  int64_t top_rows = 0;  // levels with so many together are not pruned
  int64_t parts = 0;     // blocks that select from an example's classes
};

// What fits `max_bytes`, or needs the least bytes above it.
template <typename T>
SearchShape FitSearch(const Batch<T>& batch, int64_t k, int64_t max_bytes);

// Lists of classes by their depth-first ranks (TreeView::class_ranks), in
// device memory and not checked. List i has ranks[splits[i]] to
// ranks[splits[i + 1] - 1], in ascending order.
struct AllowedRanks {
  const int64_t* ranks = nullptr;
  const int64_t* splits = nullptr;  // [num_lists + 1]; null: all classes
  int64_t num_lists = 0;            // 1 for all examples; or as many as these
};

// What is wanted of a search. Where these are fewer classes than k,
// log-probability minus infinity and class -1 stand for the others.
struct WantedClasses {
  int64_t k = 1;
  // [size], or null. Only classes whose log-probability is at least this are
  // wanted (NaN: any), and none below a node of minus infinity.
  const float* bounds = nullptr;
  AllowedRanks allowed;
};

// The k best classes of each example, best first, of equal ones the smaller
// class; NaN counts as minus infinity. Exact, whatever the shape of the search.
// Not for float64. log_probs and classes are [size, k]; `scratch` has
// TopKBytes; batch.tree has row_below.
template <typename T>
int64_t TopKBytes(const Batch<T>& batch, int64_t k, const SearchShape& shape);
template <typename T>
std::string TopK(const Batch<T>& batch, const Levels& levels,
                 const WantedClasses& wanted, const SearchShape& shape,
                 float* log_probs, int64_t* classes, void* scratch,
                 void* stream);

// Draws classes [size, num_samples] by one uniform number per level, that of
// (seeds, draw, level) in cc/core/base/philox.h; every group's logits are
// divided by `temperature`. With root_log_probs the root is drawn first, by the
// number of level 0, and not by the temperature; what lies below it has the
// levels from 1 on. Several roots need them. -1 where the probabilities are
// NaN, or there are none. batch.tree has row_below.
struct SampleArguments {
  int64_t num_samples = 1;
  uint64_t seed_0 = 0;
  uint64_t seed_1 = 0;
  double temperature = 1;
};
template <typename T>
int64_t SampleBytes(const Batch<T>& batch, const SampleArguments& arguments);
template <typename T>
std::string Sample(const Batch<T>& batch, const Levels& levels,
                   const SampleArguments& arguments, int64_t* classes,
                   void* scratch, void* stream);

// The log-probabilities of a few given classes of each example.
//
// batch.labels are the classes, [size, count], and log_probs has their shape;
// NaN for a class that the tree does not have. With root_log_probs, minus
// infinity for the class -1, which is one of another tree. Each class is an
// example of the loss of its own: what the paths of an example's classes share
// is computed for each. At most `chunk` examples at a time; `scratch` has
// ClassLogProbsBytes.
template <typename T>
int64_t ClassLogProbsBytes(const Batch<T>& batch, int64_t count, int64_t chunk);
template <typename T>
std::string ClassLogProbs(const Batch<T>& batch, const Levels& levels,
                          int64_t count, int64_t chunk,
                          Accumulator<T>* log_probs, void* scratch,
                          void* stream);

// The gradients by logits, inputs and root_log_probs.
template <typename A>
struct LogProbsGrads {
  A* dz = nullptr;     // [size, weight rows]
  A* dx = nullptr;     // [size, width]
  A* roots = nullptr;  // [size, roots], or null
};

// Makes them of the gradient that reaches the values, `grads`, of their shape.
// batch.tree has row_below; `scratch` has LogProbsGradBytes.
template <typename T>
int64_t LogProbsGradBytes(const Batch<T>& batch);
template <typename T>
std::string LogProbsGrad(const Batch<T>& batch, const Levels& levels,
                         const AllLogProbs<const Accumulator<T>>& forward,
                         const Accumulator<T>* grads,
                         const LogProbsGrads<Accumulator<T>>& out,
                         void* scratch, void* stream);

// The k best classes of each example, best first, as TopK gives them.
struct BestClasses {
  int64_t size = 0;
  int64_t k = 0;                     // at most kMaxTopK
  const float* log_probs = nullptr;  // [size, k]
  const int64_t* classes = nullptr;  // [size, k]
};

// Fills first [size] with each example's best class, num_pruned [size] with 0.
// `classes` is the memory of best.classes: an example's classes become -1 where
// its first log-probability is NaN.
std::string SplitBest(const BestClasses& best, int64_t* classes, int64_t* first,
                      int64_t* num_pruned, void* stream);

// Draws classes [size, num_samples] among them by p ** (1 / temperature), the
// draw with the number i by the uniform number (i, 0) of the seeds. With a
// `top_p` below 1, among the fewest of them that reach it: by their
// probabilities if it is a share `of_all` classes, else as a share of the sum
// of p ** (1 / temperature). -1 where the probabilities are NaN, or there is no
// class. too_few [size] becomes 1 where all k do not reach it, else 0.
std::string DrawFromBest(const BestClasses& best, double top_p, bool of_all,
                         const SampleArguments& arguments, int64_t* classes,
                         int32_t* too_few, void* stream);

// Divides the probabilities of an example's roots by their sum, which is the
// sum over all classes; NaN where it is 0. Fills bounds [size] so that a search
// finds nothing below roots without probability.
struct RootShares {
  int64_t size = 0;
  int64_t num_roots = 1;
  const float* root_log_probs = nullptr;  // [size, num_roots]
  float* log_shares = nullptr;            // [size, num_roots]
  float* bounds = nullptr;                // [size]
};
std::string ShareRoots(const RootShares& roots, void* stream);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_API_INFERENCE_H_
