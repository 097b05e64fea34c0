// What every op on a batch of labels begins with.

#ifndef TF_HSM_CC_KERNELS_CPU_BATCH_H_
#define TF_HSM_CC_KERNELS_CPU_BATCH_H_

#include <functional>
#include <new>
#include <string>
#include <vector>

#include "cc/core/api/inputs.h"
#include "cc/core/api/loss.h"
#include "cc/core/api/sparse_update.h"
#include "cc/core/base/parallel.h"
#include "cc/core/plan/plan.h"
#include "cc/core/table/kernel_table.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/parameters.h"
#include "cc/kernels/cpu/page_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

// Arguments, the plan of the labels, and the inputs in its order: given ones,
// or the vectors of the parameters that the op's indices name.
template <typename T>
class Batch {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  // `parameters` are locked already.
  absl::Status Prepare(tensorflow::OpKernelContext* context,
                       const Parameters& parameters,
                       const std::vector<int64_t>& ignored,
                       const Parallel& parallel) {
    TF_RETURN_IF_ERROR(arguments.Read(context, parameters));
    try {
      std::vector<int64_t> labels, indices;
      CopyIntegers(*arguments.labels, &labels);
      if (arguments.indices != nullptr) {
        TF_RETURN_IF_ERROR(ReadIndices(
            *arguments.indices, parameters.vectors()->dim_size(0), &indices));
      }
      std::string error = SortExamples(arguments.tree, labels.data(),
                                       labels.size(), ignored, &plan);
      if (!error.empty()) return absl::InvalidArgumentError(error);
      TF_RETURN_IF_ERROR(
          AllocateTemp(context, tensorflow::DataTypeToEnum<A>::value,
                       tensorflow::TensorShape(
                           {plan.num_examples(), Padded(arguments.width)}),
                       &sorted_));
      // One thread makes the nodes while the others pack.
      auto with_nodes = [&](int64_t count,
                            const std::function<void(int64_t)>& pack) {
        const int64_t first = arguments.indices == nullptr ? 1 : 2;
        parallel(first + count, [&](int64_t i) {
          if (i >= first) {
            pack(i - first);
          } else if (i == 1) {
            vector_rows = SortRows(indices.data(), indices.size());
          } else {
            error = AddNodes(arguments.tree, labels.data(), &plan);
          }
        });
      };
      if (arguments.indices == nullptr) {
        Pack(*arguments.inputs, plan.order, with_nodes);
      } else {
        std::vector<int64_t> sorted;
        sorted.reserve(plan.num_examples());
        for (int64_t example : plan.order) sorted.push_back(indices[example]);
        indices.swap(sorted);
        Pack(*parameters.vectors(), indices, with_nodes);
      }
      if (!error.empty()) return absl::InvalidArgumentError(error);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          "no memory for the plan of these labels' paths");
    }
    problem.plan = &plan;
    problem.width = arguments.width;
    problem.weights = Data<T>(parameters.weights());
    problem.biases =
        parameters.biases() ? Data<T>(*parameters.biases()) : nullptr;
    problem.x = sorted_.flat<A>().data();
    return absl::OkStatus();
  }

  template <typename S>
  static typename CoreType<S>::type* Data(const tensorflow::Tensor& tensor) {
    // Not flat(), which ends the process on memory that is not aligned.
    return static_cast<typename CoreType<S>::type*>(tensor.data());
  }

  // Reads the op's input loss_grads, of the labels' shape, in sorted order.
  absl::Status ReadLossGrads(tensorflow::OpKernelContext* context,
                             std::vector<A>* sorted) const {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(arguments.ReadLossGrads(context, &tensor));
    const A* values = Data<A>(*tensor);
    sorted->clear();
    sorted->reserve(plan.num_examples());
    for (int64_t example : plan.order) sorted->push_back(values[example]);
    return absl::OkStatus();
  }

  Arguments arguments;
  Plan plan;
  Problem<Core> problem;
  // The vectors of the sorted examples, by row (SparseGradient).
  std::vector<KeyAndIndex> vector_rows;

 private:
  void Pack(const tensorflow::Tensor& inputs, const std::vector<int64_t>& rows,
            const Parallel& parallel) {
    switch (inputs.dtype()) {
      case tensorflow::DT_FLOAT:
        return PackAs<float>(inputs, rows, parallel);
      case tensorflow::DT_DOUBLE:
        return PackAs<double>(inputs, rows, parallel);
      case tensorflow::DT_BFLOAT16:
        return PackAs<Eigen::bfloat16>(inputs, rows, parallel);
      default:
        return PackAs<Eigen::half>(inputs, rows, parallel);
    }
  }

  template <typename X>
  void PackAs(const tensorflow::Tensor& inputs,
              const std::vector<int64_t>& rows, const Parallel& parallel) {
    PackInputs(rows.data(), plan.num_examples(), Data<X>(inputs),
               arguments.width, parallel, sorted_.flat<A>().data());
  }

  tensorflow::Tensor sorted_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_BATCH_H_
