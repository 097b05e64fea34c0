// What every op on a batch of labels begins with on the CPU.

#ifndef TF_HSM_CC_KERNELS_CPU_LOSS_BATCH_H_
#define TF_HSM_CC_KERNELS_CPU_LOSS_BATCH_H_

#include <functional>
#include <numeric>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/base/parallel.h"
#include "cc/core/plan/node_parts.h"
#include "cc/core/plan/plan.h"
#include "cc/core/plan/smoothing_prior.h"
#include "cc/core/plan/vector_plan.h"
#include "cc/core/table/kernel_table.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parallel.h"
#include "cc/kernels/cpu/pack_inputs.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {

// Values of the batch, one per example, in sorted order.
template <typename A>
std::vector<A> InOrder(const Plan& plan, const A* values) {
  std::vector<A> sorted;
  sorted.reserve(plan.num_examples());
  for (int64_t example : plan.order) sorted.push_back(values[example]);
  return sorted;
}

// Arguments, the plan of the labels, and the inputs in its order: given ones,
// or the vectors of the parameters that the op's indices name, or sums of
// these.
template <typename T>
class LossBatch {
 public:
  using A = Accumulator<T>;

  // After arguments.parameters are read or written.
  absl::Status Prepare(OpKernelContext* context,
                       const LossAttributes& attributes) {
    parallel = PoolParallel(context);
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes));
    PreferHugePages(arguments.parameters);
    TF_RETURN_IF_ERROR(PlanAndPack(context, attributes));
    problem.plan = &plan;
    problem.width = arguments.width;
    problem.weights = Data<T>(arguments.parameters.weights());
    problem.biases = Data<T>(arguments.parameters.biases());
    problem.label_smoothing = attributes.label_smoothing;
    problem.logit_soft_cap = attributes.logit_soft_cap;
    problem.z_loss = attributes.z_loss;
    if (arguments.smoothing_prior == nullptr) return absl::OkStatus();
    problem.smoothing_prior = Data<float>(*arguments.smoothing_prior);
    return StatusOf(CheckSmoothingPrior(plan, problem.smoothing_prior));
  }

  // Reads the op's input loss_grads, of the labels' shape, in sorted order.
  absl::Status ReadLossGrads(OpKernelContext* context,
                             std::vector<A>* sorted) const {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(
        tf_hsm::ReadLossGrads(context, arguments.batch_shape, &tensor));
    *sorted = InOrder(plan, Data<A>(*tensor));
    return absl::OkStatus();
  }

  // Where the inputs are vectors: packs them.
  absl::Status PackVectors(OpKernelContext* context) {
    const Tensor& table = *arguments.parameters.vectors();
    return arguments.splits != nullptr
               ? PackBags<A>(context, table, bags, arguments.width, parallel,
                             &packed, &problem.x)
               : PackTensor<A>(context, table, bags.rows.data(),
                               plan.num_examples(), arguments.width, parallel,
                               &packed, &problem.x);
  }

  // Or lets the step read them where they lie.
  void ReadVectorsInPlace(const Update<T>* update, A* sums) {
    vectors.plan = &vector_plan;
    vectors.table = Data<T>(*arguments.parameters.vectors());
    vectors.update = update;
    vectors.sums = sums;
    if (arguments.splits != nullptr && !BagsAreVectors()) {
      vectors.starts = bags.starts.data();
      vectors.factors = bags.factors.data();
    }
    problem.vectors = &vectors;
  }

  LossArguments arguments;
  Parallel parallel;
  Plan plan;
  Tensor packed;  // the memory of problem.x
  Problem<T> problem;
  // Where the inputs are vectors, those of the sorted examples, by row
  // (SparseGradient), and for each of them the bag that it is in (`bag_of`).
  std::vector<KeyAndIndex> vector_rows;
  Bags<A> bags;  // without, only its rows
  std::vector<int64_t> bag_of;
  VectorPlan vector_plan;
  VectorInputs<T> vectors;

 private:
  // Inputs that are vectors are not packed yet.
  absl::Status PlanAndPack(OpKernelContext* context,
                           const LossAttributes& attributes) {
    std::vector<int64_t> labels;
    CopyIntegers(*arguments.labels, &labels);
    TF_RETURN_IF_ERROR(
        StatusOf(SortExamples(arguments.tree, labels.data(), labels.size(),
                              attributes.ignored, &plan)));
    NodeParts nodes(arguments.tree, labels.data(), &plan);
    // The nodes are made beside something else.
    absl::Status status;
    if (arguments.inputs == nullptr) {
      parallel(1 + nodes.count(), [&](int64_t i) {
        if (i > 0) return nodes.Make(i - 1);
        status = ReadVectors(attributes.takes_means);
      });
    } else {
      auto with_nodes = [&](int64_t count,
                            const std::function<void(int64_t)>& pack) {
        parallel(nodes.count() + count, [&](int64_t i) {
          i < nodes.count() ? nodes.Make(i) : pack(i - nodes.count());
        });
      };
      status = PackTensor<A>(context, *arguments.inputs, plan.order.data(),
                             plan.num_examples(), arguments.width, with_nodes,
                             &packed, &problem.x);
    }
    TF_RETURN_IF_ERROR(status);
    return StatusOf(nodes.Finish(parallel));
  }

  // The vectors of the sorted examples.
  absl::Status ReadVectors(bool takes_means) {
    const int64_t rows = arguments.parameters.vectors()->dim_size(0);
    std::vector<int64_t> indices, splits;
    TF_RETURN_IF_ERROR(ReadIndices(*arguments.indices, rows, &indices));
    if (arguments.splits != nullptr) {
      TF_RETURN_IF_ERROR(
          ReadSplits(*arguments.splits, indices.size(), &splits));
      SortBags(indices, splits, takes_means);
    } else {
      bags.rows.reserve(plan.num_examples());
      for (int64_t example : plan.order) bags.rows.push_back(indices[example]);
    }
    vector_rows = SortRows(bags.rows.data(), bags.rows.size());
    PlanVectors(vector_rows, arguments.splits ? bag_of.data() : nullptr,
                plan.span, &vector_plan);
    return absl::OkStatus();
  }

  // Whether each bag is one vector, times 1: their bits are those of indices.
  bool BagsAreVectors() const {
    const int64_t count = plan.num_examples();
    for (int64_t at = 0; at < count; ++at) {
      if (bags.starts[at + 1] != at + 1 || bags.factors[at] != 1) return false;
    }
    return true;
  }

  void SortBags(const std::vector<int64_t>& indices,
                const std::vector<int64_t>& splits, bool takes_means) {
    const A* weights = Data<A>(arguments.index_weights);
    bags.starts.assign(1, 0);
    for (int64_t at = 0; at < plan.num_examples(); ++at) {
      const int64_t example = plan.order[at];
      const int64_t begin = splits[example], end = splits[example + 1];
      A total = 1;
      if (takes_means) {
        total = end - begin;
        if (weights != nullptr) {
          total = std::accumulate(weights + begin, weights + end, A(0));
        }
      }
      const A scale = total == 0 ? A(0) : 1 / total;
      for (int64_t i = begin; i < end; ++i) {
        bags.rows.push_back(indices[i]);
        bags.factors.push_back(weights == nullptr ? scale : weights[i] * scale);
        bag_of.push_back(at);
      }
      bags.starts.push_back(bags.rows.size());
    }
  }
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_LOSS_BATCH_H_
