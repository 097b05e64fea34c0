// The k best classes: a search that opens groups of many examples side by side.
//
// A node is at least as probable as any class below it, in floating point too.
// So a group matters to an example only if its node is at least as probable as
// the k-th best class found so far (docs/math.md, section 12), and if it is
// wanted at all: a node without an allowed class below it is not. The top
// levels are opened by all examples. Then come two sweeps over the levels
// below. In the first, an example opens its best nodes of each level only,
// which finds good classes; in the second, every node left that could matter,
// of which there are few once the k-th class is good. A level that is too large
// for the scratch is swept piece by piece, and each piece raises the bound for
// those after it.
//
//   NodeLogits    the logits of the piece, for those who open its groups
//   OpenGroups    log-probabilities; nodes get their bound, classes that could
//                 matter are listed per example
//   MergeClasses  the k best of the list and of those found before
//
// Nothing waits for the device: launches follow from the shape of the tree.
// Integers are added atomically to lengths of lists, whose order does not
// matter. Bytes: the rows of the groups that somebody opens, once per sweep;
// their logits written and read. If all classes are as good, all rows once.

#include <cmath>

#include "cc/cuda/api/inference.h"
#include "cc/cuda/loss/check_arguments.h"
#include "cc/cuda/loss/inputs.h"
#include "cc/cuda/predict/best_keys.h"
#include "cc/cuda/predict/log_sum.h"
#include "cc/cuda/predict/node_logits.h"
#include "cc/cuda/predict/search.h"
#include "cc/cuda/tile/buffers.h"

namespace tf_hsm::gpu {
namespace {

struct OpenArguments {
  RowRange rows;
  int64_t first_column;  // of the first row
  bool leaves_only;      // the last level
  const float* least;    // [size], of groups to open; null: all
};

template <int team>
TF_HSM_KERNEL(kBlockThreads)
OpenGroups(SearchBuffers in, OpenArguments what) {
  float* shared = reinterpret_cast<float*>(SharedMemory());
  const TreeView& tree = in.tree;
  constexpr int kTeams = kBlockThreads / team;
  const int64_t items = what.rows.num_groups * in.size;
  for (int64_t i = BlockIndex() * kTeams + ThreadIndex() / team; i < items;
       i += NumBlocks() * kTeams) {
    const int64_t e = i % in.size;
    const int64_t place = what.rows.first_group + i / in.size;
    float* bound = in.bounds + place * in.size + e;
    const float above = *bound;
    const float none = -static_cast<float>(INFINITY);
    if (!IsOpened(above, what.least == nullptr ? none : what.least[e])) {
      continue;
    }
    const int64_t group = GroupAt(in.places, place);
    const int64_t* offsets = OffsetsOf(in.places, tree);
    const int64_t begin = offsets[place] - what.rows.first_row;
    const int64_t count = offsets[place + 1] - offsets[place];
    const int64_t* row_below = tree.row_below + tree.group_offsets[group];
    if (begin < 0 || count < 1 || begin + count > what.rows.num_rows) continue;
    const float* z = in.z + e * in.columns + what.first_column + begin;
    LogSum<float> sum = {0, 0};
    if (!in.has_sigmoids) sum = FindLogSum<team>(z, count, shared);
    const float least = in.least[e];
    for (int64_t r = ThreadIndex() % team; r < count; r += team) {
      const float log_prob = above + (z[r] - sum.shift - sum.log_sum);
      // NaN is as good as minus infinity.
      const bool could_matter = log_prob >= least || least == none;
      if (what.leaves_only && !could_matter) continue;
      const int64_t below = row_below[r];
      if (!IsAllowed(tree, in.allowed, e, below)) continue;
      if (below > group && below < tree.num_groups &&
          !IsUnwanted(in, log_prob)) {
        in.bounds[PlaceOf(in.places, below) * in.size + e] = log_prob;
      }
      if (could_matter && below < 0 && ~below < tree.num_classes) {
        const int64_t at = AddAtomically(in.counts + e, 1);
        if (at < in.columns) {
          in.list[e * in.columns + at] = KeyOf(log_prob, ~below);
        }
      }
    }
    // All of the team have read it; the shuffles of a warp order no memory.
    if constexpr (team == kWarp) SyncWarp();
    if (ThreadIndex() % team == 0) *bound = static_cast<float>(INFINITY);
  }
}

// Nodes of a level that the first sweep opens: those that are likely to have
// k classes below them, and no more than will matter in the end.
int NodesFirst(int64_t k, const RowRange& level) {
  const int64_t fanout = CeilDivide(level.num_rows, level.num_groups);
  const int64_t wanted = Larger(CeilDivide(k, 8), CeilDivide(4 * k, fanout));
  return static_cast<int>(
      Smaller(wanted, Smaller<int64_t>(level.num_groups, kMaxTopK)));
}

int64_t MostPicked(int64_t k) { return Smaller<int64_t>(4 * k, kMaxTopK); }

template <typename T>
void LayOutSearch(const Batch<T>& batch, const SearchShape& shape, int64_t k,
                  Arena* arena, float** x, SearchBuffers* buffers) {
  SearchBuffers& b = *buffers;
  b.tree = batch.tree;
  b.root_log_probs = batch.root_log_probs;
  b.has_sigmoids = batch.has_sigmoids;
  b.size = Smaller(shape.examples, batch.size);
  b.columns = shape.columns;
  b.parts = shape.parts;
  b.k = static_cast<int>(k);
  arena->Take(b.size * batch.width, x);
  arena->Take(b.size * b.columns, &b.z);
  arena->Take(b.size * batch.tree.num_groups, &b.bounds);
  arena->Take(b.size, &b.least);
  arena->Take(b.size, &b.opens);
  arena->Take(b.size, &b.counts);
  arena->Take(b.size * b.columns, &b.list);
  arena->Take(b.size * k, &b.best);
  arena->Take(b.size * b.parts * MostPicked(k), &b.picked);
}

template <typename T>
class TopKSearch {
 public:
  TopKSearch(const Batch<T>& batch, const Levels& levels,
             const SearchShape& shape, const WantedClasses& wanted,
             void* scratch, void* stream)
      : batch_(batch), levels_(levels), shape_(shape), launcher_(stream) {
    Arena arena(scratch);
    LayOutSearch(batch, shape, wanted.k, &arena, &x_, &b_);
    b_.places = levels.places;
    b_.wanted = wanted.bounds;
    b_.allowed = wanted.allowed;
  }

  void Run(float* log_probs, int64_t* classes) {
    const std::vector<int64_t>& levels = levels_.starts;
    const int64_t* offsets = levels_.offsets.data();
    PackOperands(launcher_, batch_, x_);
    BeginSearch(launcher_, b_);
    const size_t top =
        TopLevels(levels, offsets, Smaller(shape_.top_rows, shape_.columns));
    if (top > 0) {
      const RowRange all = SpanOf(offsets, 0, levels[top]);
      MakeLogits(all, nullptr);
      for (size_t level = 0; level < top; ++level) {
        const RowRange span = SpanOf(offsets, levels[level], levels[level + 1]);
        OpenSpan(span, span.first_row, level, nullptr);
      }
      MergeClasses(launcher_, b_);
    }
    if (top + 1 < levels.size()) {
      Sweep(top, true);
      Sweep(top, false);
    }
    WriteBest(launcher_, b_, log_probs, classes);
  }

 private:
  void Sweep(size_t top, bool is_first) {
    const std::vector<int64_t>& levels = levels_.starts;
    const int64_t* offsets = levels_.offsets.data();
    for (size_t level = top; level + 1 < levels.size(); ++level) {
      const RowRange all = SpanOf(offsets, levels[level], levels[level + 1]);
      if (is_first) {
        PickNodes(launcher_, b_, all.first_group, all.num_groups,
                  NodesFirst(b_.k, all));
      }
      const float* least = is_first ? b_.opens : b_.least;
      for (const RowRange& piece :
           CutLevel(levels, level, offsets, shape_.columns)) {
        MakeLogits(piece, least);
        OpenSpan(piece, 0, level, least);
        MergeClasses(launcher_, b_);
      }
    }
  }

  void MakeLogits(const RowRange& rows, const float* least) const {
    MakeNodeLogits<T>(
        launcher_, batch_,
        {batch_.tree, batch_.weights, batch_.biases, batch_.width, x_, b_.size,
         rows, b_.places, b_.bounds, least, b_.z, b_.columns});
  }

  void OpenSpan(const RowRange& rows, int64_t first_column, size_t level,
                const float* least) const {
    const OpenArguments what = {rows, first_column,
                                level + 2 == levels_.starts.size(), least};
    const int64_t items = rows.num_groups * b_.size;
    if (batch_.shape.max_fanout <= kMaxThreadRows) {
      Open<1>(items, what);
    } else if (rows.num_rows < rows.num_groups * kBlockThreads) {
      Open<kWarp>(items, what);
    } else {
      Open<kBlockThreads>(items, what);
    }
  }

  template <int team>
  void Open(int64_t items, const OpenArguments& what) const {
    Launch(OpenGroups<team>,
           launcher_.Grid(CeilDivide(items, kBlockThreads / team)),
           kBlockThreads, kLogSumShared * sizeof(float), launcher_.stream, b_,
           what);
  }

  const Batch<T>& batch_;
  const Levels& levels_;
  const SearchShape& shape_;
  const Launcher launcher_;
  float* x_ = nullptr;
  SearchBuffers b_;
};

}  // namespace

template <typename T>
SearchShape FitSearch(const Batch<T>& batch, int64_t k, int64_t max_bytes) {
  constexpr int64_t kTopRows = 1 << 16;
  constexpr int64_t kMaxParts = 64;
  constexpr int64_t kColumnBytes = sizeof(float) + sizeof(uint64_t);
  const int64_t num_rows = batch.tree.num_rows;
  const int64_t blocks = int64_t{CurrentDevice().num_processors} * 2;
  SearchShape shape;
  shape.top_rows = kTopRows;
  shape.columns = Larger(batch.shape.max_fanout, Smaller(num_rows, kTopRows));
  int64_t bytes;
  for (shape.examples = Larger<int64_t>(batch.size, 1);;
       shape.examples = CeilDivide(shape.examples, 2)) {
    shape.parts = Smaller(CeilDivide(blocks, shape.examples), kMaxParts);
    bytes = TopKBytes(batch, k, shape);
    if (bytes <= max_bytes || shape.examples == 1) break;
  }
  const int64_t more = (max_bytes - bytes) / (kColumnBytes * shape.examples);
  // Both arrays of columns are rounded up.
  const int64_t slack = 64;
  if (more > slack) {
    shape.columns = Smaller(num_rows, shape.columns + more - slack);
  }
  return shape;
}

template <typename T>
int64_t TopKBytes(const Batch<T>& batch, int64_t k, const SearchShape& shape) {
  Arena arena(nullptr);
  float* x;
  SearchBuffers buffers;
  LayOutSearch(batch, shape, k, &arena, &x, &buffers);
  return arena.bytes();
}

template <typename T>
std::string TopK(const Batch<T>& batch, const Levels& levels,
                 const WantedClasses& wanted, const SearchShape& shape,
                 float* log_probs, int64_t* classes, void* scratch,
                 void* stream) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const TreeView& tree = batch.tree;
  const int64_t k = wanted.k;
  std::string error = CheckBatch(batch);
  if (error.empty()) {
    error = CheckBetween("num_classes", tree.num_classes, 1, 2 * kMost);
  }
  if (error.empty()) {
    error = CheckBetween("k", k, 1, Smaller(kMaxTopK, tree.num_classes));
  }
  if (error.empty()) {
    error =
        CheckBetween("columns", shape.columns, batch.shape.max_fanout, kMost);
  }
  if (error.empty()) error = CheckBetween("examples", shape.examples, 1, kMost);
  if (error.empty()) error = CheckBetween("parts", shape.parts, 1, kMost);
  if (!error.empty()) return error;
  return ForEachChunk(batch, shape.examples,
                      [&](int64_t begin, const Batch<T>& part) {
                        WantedClasses own = wanted;
                        if (own.bounds != nullptr) own.bounds += begin;
                        if (own.allowed.num_lists > 1) {
                          own.allowed.splits += begin;
                        }
                        TopKSearch<T>(part, levels, shape, own, scratch, stream)
                            .Run(log_probs + begin * k, classes + begin * k);
                        return std::string();
                      });
}

#define TF_HSM_INSTANTIATE(T) \
  TF_HSM_MAKE(FitSearch, T) TF_HSM_MAKE(TopKBytes, T) TF_HSM_MAKE(TopK, T)
TF_HSM_FLOAT_SUM_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
