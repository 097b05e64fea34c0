// ForwardLarge with sigmoids makes the loss and dx of each visit, and keeps dz;
// a warp per example adds up what its visits left:
//
//   loss = sum of s_i;   dx = sum of v_i
//
// over the pieces i of its visits, in their order.

#include "cc/cuda/api/label_tree.h"
#include "cc/cuda/loss/label_tree.h"

namespace tf_hsm::gpu {
namespace {

template <typename T>
struct SumArguments {
  int64_t num_examples;
  int64_t width;
  Buffers<T> buffers;
  LossOutputs<T> out;
};

// use(slot) for the places of the partial results of an example's visits.
template <typename T, typename Use>
TF_HSM_DEVICE void ForEachSlot(const Buffers<T>& from, int64_t example,
                               const Use& use) {
  const DevicePlan& plan = from.plan;
  const int32_t* starts = from.visits.example_starts;
  for (int32_t at = starts[example]; at < starts[example + 1]; ++at) {
    const int32_t visit = from.visits.example_visits[at];
    const int32_t n = from.pass_nodes[visit];
    const DeviceNode& node = plan.nodes[n];
    const PassSlots slots = plan.counts->cuts.SlotsOf(node, visit - node.begin);
    const int64_t first =
        (n == 0 ? 0 : plan.work[n - 1].forward_slots) + slots.first;
    for (int64_t i = 0; i < slots.pieces; ++i) use(first + i * slots.stride);
  }
}

template <typename T>
TF_HSM_KERNEL(kBlockThreads)
SumVisits(SumArguments<T> in) {
  using A = Accumulator<T>;
  constexpr int kColumns = 4;  // of a lane
  const Buffers<T>& from = in.buffers;
  const int warps = NumThreads() / kWarp;
  for (int64_t example = BlockIndex() * warps + WarpIndex();
       example < in.num_examples; example += NumBlocks() * warps) {
    A loss = 0;
    ForEachSlot(from, example,
                [&](int64_t slot) { loss += from.partial_sums[2 * slot + 1]; });
    if (Lane() == 0) in.out.loss[example] = loss;
    if (in.out.dx == nullptr) continue;
    const A factor =
        in.out.dx_factors == nullptr ? A(1) : in.out.dx_factors[example];
    for (int64_t base = Lane(); base - Lane() < in.width;
         base += kColumns * kWarp) {
      A sums[kColumns] = {};
      ForEachSlot(from, example, [&](int64_t slot) {
        TF_HSM_UNROLL
        for (int j = 0; j < kColumns; ++j) {
          const int64_t d = base + j * kWarp;
          if (d < in.width) sums[j] += from.partial_rows[slot * in.width + d];
        }
      });
      TF_HSM_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const int64_t d = base + j * kWarp;
        if (d < in.width) in.out.dx[example * in.width + d] = factor * sums[j];
      }
    }
  }
}

}  // namespace

template <typename T>
std::vector<char> PlanVisits(const LabelPlan& labels, Batch<T>* batch) {
  batch->size = labels.num_visits();
  batch->shape = {1, 1, 0, 1};
  for (const Node& node : labels.plan.nodes) {
    batch->shape.max_fanout = Larger(batch->shape.max_fanout, node.fanout);
  }
  const Launcher launcher(nullptr);
  std::vector<char> bytes =
      PackVisits(labels, ShapeOf(*batch, launcher.device).forward_examples);
  batch->visits = bytes.data();
  return bytes;
}

template <typename T>
void LaunchVisits(const LossLauncher<T>& launcher,
                  const LossOutputs<T>& outputs) {
  const Batch<T>& batch = launcher.batch;
  const bool with_dx = outputs.dx != nullptr;
  launcher.AtLargeGroups([&](auto name, const LargeArguments<T>& in) {
    using Product = typename decltype(name)::Product;
    Launch(ForwardLarge<Product, true>, launcher.shape.blocks, kTileThreads,
           in.shared_bytes, launcher.stream, in, with_dx);
  });
  const int64_t examples =
      static_cast<const VisitHeader*>(batch.visits)->num_examples;
  const SumArguments<T> in = {examples, batch.width, launcher.buffers, outputs};
  launcher.PerWarp(SumVisits<T>, examples, kBlockThreads / kWarp, 0, in);
}

#define TF_HSM_INSTANTIATE(T, ...) \
  TF_HSM_MAKE(PlanVisits, T) TF_HSM_MAKE(LaunchVisits, T)
TF_HSM_ELEMENT_TYPES(TF_HSM_INSTANTIATE)

}  // namespace tf_hsm::gpu
