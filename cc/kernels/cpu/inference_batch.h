// What every op that goes down the tree begins with on the CPU.

#ifndef TF_HSM_CC_KERNELS_CPU_INFERENCE_BATCH_H_
#define TF_HSM_CC_KERNELS_CPU_INFERENCE_BATCH_H_

#include "cc/core/api/group_scores.h"
#include "cc/core/base/isa.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/inference_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/cpu/pack_inputs.h"
#include "cc/kernels/cpu/parallel.h"
#include "cc/kernels/cpu/parameter_pages.h"

namespace tf_hsm {

// What InferenceArguments reads, as the core takes it.
template <typename T>
class InferenceBatch {
 public:
  absl::Status Read(OpKernelContext* context,
                    const TreeAttributes& attributes) {
    TF_RETURN_IF_ERROR(arguments.Read(context, attributes, kDataType<T>));
    TF_RETURN_IF_ERROR(attributes.CheckSoftCap(arguments.tree));
    scorer.logit_soft_cap = attributes.logit_soft_cap;
    PreferHugePages(arguments.parameters);
    scorer.tree = arguments.tree;
    scorer.width = arguments.width;
    scorer.num_examples = arguments.num_examples;
    scorer.quantized = arguments.quantized;
    if (arguments.quantized.codes == nullptr) {
      scorer.weights = Data<T>(arguments.parameters.weights());
    }
    scorer.biases = Data<T>(arguments.parameters.biases());
    scorer.root_log_probs =
        Data<const Accumulator<T>>(arguments.root_log_probs);
    scorer.table = &KernelTableFor<T>(ActiveIsa(nullptr));
    scorer.parallel = PoolParallel(context);
    return PackTensor(context, *arguments.inputs, /*order=*/nullptr,
                      scorer.num_examples, scorer.width, scorer.parallel,
                      &packed_, &scorer.x);
  }

  InferenceArguments arguments;
  GroupScorer<T> scorer;

 private:
  Tensor packed_;
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_INFERENCE_BATCH_H_
