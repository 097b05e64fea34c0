// Several blocks of an example each select the best of a part of its keys, then
// one block the best of those. Bytes: the keys read once, parts * k more.

#include <cmath>

#include "cc/cuda/predict/best_keys.h"
#include "cc/cuda/predict/search.h"

namespace tf_hsm::gpu {
namespace {

// What classes must be as probable as, where the k-th best has `found`.
TF_HSM_DEVICE float LeastOf(const SearchBuffers& in, int64_t example,
                            float found) {
  return in.wanted == nullptr ? found : fmaxf(found, in.wanted[example]);
}

// What an example reaches the root at `place` with; infinite if it does not.
TF_HSM_DEVICE float StartAt(const SearchBuffers& in, int64_t example,
                            int64_t place) {
  const float far = static_cast<float>(INFINITY);
  const float start = StartOf(in.tree, in.root_log_probs, example, place);
  const int64_t group = GroupAt(in.places, place);
  if (IsUnwanted(in, start) ||
      !IsAllowed(in.tree, in.allowed, example, group)) {
    return far;
  }
  return start == far ? static_cast<float>(NAN) : start;
}

TF_HSM_KERNEL(kBlockThreads)
BeginSearchKernel(SearchBuffers in) {
  const int64_t bounds = in.tree.num_groups * in.size;
  const int64_t best = in.size * in.k;
  for (int64_t i = GlobalIndex(); i < Larger(bounds, best);
       i += NumBlocks() * NumThreads()) {
    const float far = static_cast<float>(INFINITY);
    if (i < bounds) {
      const int64_t place = i / in.size;
      in.bounds[i] =
          place < in.tree.num_roots ? StartAt(in, i % in.size, place) : far;
    }
    if (i < best) in.best[i] = kNoKey;
    if (i < in.size) {
      in.least[i] = LeastOf(in, i, -far);
      in.counts[i] = 0;
    }
  }
}

// The first block of an example begins with part 0, and so on.
struct Part {
  TF_HSM_DEVICE Part(int64_t parts, int64_t count)
      : example(BlockIndex() / parts) {
    const int64_t each = CeilDivide(count, parts);
    begin = Smaller(BlockIndex() % parts * each, count);
    end = Smaller(begin + each, count);
  }
  int64_t example, begin, end;
};

TF_HSM_DEVICE void Keep(BestKeys* keys, int wanted, uint64_t* to) {
  keys->Finish();
  for (int i = ThreadIndex(); i < wanted; i += BestKeys::kThreads) {
    to[i] = keys->At(i);
  }
}

// picked: of each part of an example's list, the keys better than its best k.
TF_HSM_KERNEL(BestKeys::kThreads)
SelectClassesKernel(SearchBuffers in) {
  const int64_t e = BlockIndex() / in.parts;
  if (in.counts[e] == 0) return;
  const Part part(in.parts, Smaller<int64_t>(in.counts[e], in.columns));
  const uint64_t* list = in.list + e * in.columns;
  BestKeys keys(in.k);
  keys.AddBelow(in.best[e * in.k + in.k - 1]);
  keys.Add(part.begin, part.end, [&](int64_t i) { return list[i]; });
  Keep(&keys, in.k, in.picked + BlockIndex() * in.k);
}

// picked: of each part of a level, the `wanted` best nodes that are not opened.
TF_HSM_KERNEL(BestKeys::kThreads)
SelectNodesKernel(SearchBuffers in, int64_t first_place, int64_t num_groups,
                  int wanted) {
  const Part part(in.parts, num_groups);
  const float* bounds = in.bounds + first_place * in.size + part.example;
  BestKeys keys(wanted);
  keys.Add(part.begin, part.end, [&](int64_t i) {
    const float bound = bounds[i * in.size];
    return bound == static_cast<float>(INFINITY) ? kNoKey : KeyOf(bound, i);
  });
  Keep(&keys, wanted, in.picked + BlockIndex() * wanted);
}

// The k best of what was picked and of those found before; empties the list.
TF_HSM_KERNEL(BestKeys::kThreads)
MergeClassesKernel(SearchBuffers in) {
  const int64_t e = BlockIndex();
  if (in.counts[e] == 0) return;
  uint64_t* best = in.best + e * in.k;
  const uint64_t* picked = in.picked + e * in.parts * in.k;
  BestKeys keys(in.k);
  keys.Add(0, in.k, [&](int64_t i) { return best[i]; });
  keys.AddBelow(best[in.k - 1]);
  keys.Add(0, in.parts * in.k, [&](int64_t i) { return picked[i]; });
  Keep(&keys, in.k, best);
  if (ThreadIndex() == 0) {
    in.least[e] = LeastOf(in, e, BoundOf(keys.At(in.k - 1)));
    in.counts[e] = 0;
  }
}

// opens: the log-probability of the last of the `wanted` best nodes.
TF_HSM_KERNEL(BestKeys::kThreads)
MergeNodesKernel(SearchBuffers in, int wanted) {
  const int64_t e = BlockIndex();
  const uint64_t* picked = in.picked + e * in.parts * wanted;
  BestKeys keys(wanted);
  keys.Add(0, in.parts * wanted, [&](int64_t i) { return picked[i]; });
  keys.Finish();
  if (ThreadIndex() == 0) {
    in.opens[e] = Larger(in.least[e], BoundOf(keys.At(wanted - 1)));
  }
}

TF_HSM_KERNEL(kBlockThreads)
WriteBestKernel(int64_t count, const uint64_t* best, float* log_probs,
                int64_t* classes) {
  const int64_t i = GlobalIndex();
  if (i >= count) return;
  const bool there = best[i] != kNoKey;
  classes[i] = there ? NumberOf(best[i]) : -1;
  log_probs[i] = there ? LogProbOf(best[i]) : BoundOf(best[i]);
}

// A block per example, or several.
template <typename Kernel, typename... Arguments>
void LaunchSelection(const Launcher& launcher, Kernel kernel, int64_t blocks,
                     Arguments... arguments) {
  Launch(kernel, blocks, BestKeys::kThreads, BestKeys::kSharedBytes,
         launcher.stream, arguments...);
}

}  // namespace

void BeginSearch(const Launcher& launcher, const SearchBuffers& search) {
  const int64_t most = Larger<int64_t>(search.tree.num_groups, search.k);
  launcher.PerThread(BeginSearchKernel, search.size * most, search);
}

void MergeClasses(const Launcher& launcher, const SearchBuffers& search) {
  LaunchSelection(launcher, SelectClassesKernel, search.size * search.parts,
                  search);
  LaunchSelection(launcher, MergeClassesKernel, search.size, search);
}

void PickNodes(const Launcher& launcher, const SearchBuffers& search,
               int64_t first_place, int64_t num_groups, int wanted) {
  LaunchSelection(launcher, SelectNodesKernel, search.size * search.parts,
                  search, first_place, num_groups, wanted);
  LaunchSelection(launcher, MergeNodesKernel, search.size, search, wanted);
}

void WriteBest(const Launcher& launcher, const SearchBuffers& search,
               float* log_probs, int64_t* classes) {
  const int64_t count = search.size * search.k;
  LaunchEach(WriteBestKernel, count, launcher.stream, count, search.best,
             log_probs, classes);
}

}  // namespace tf_hsm::gpu
