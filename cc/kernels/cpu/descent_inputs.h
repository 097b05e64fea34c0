// What every op that goes down the tree begins with.

#ifndef TF_HSM_CC_KERNELS_CPU_DESCENT_INPUTS_H_
#define TF_HSM_CC_KERNELS_CPU_DESCENT_INPUTS_H_

#include <cstdint>
#include <exception>
#include <string>

#include "cc/core/api/group_scores.h"
#include "cc/core/api/inputs.h"
#include "cc/core/base/isa.h"
#include "cc/kernels/common/arguments.h"
#include "cc/kernels/common/inference_arguments.h"
#include "cc/kernels/cpu/page_pool.h"
#include "cc/kernels/cpu/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_hsm {

// What InferenceArguments reads, as the core takes it.
template <typename T>
class DescentInputs {
 public:
  using Core = typename CoreType<T>::type;
  using A = Accumulator<Core>;

  absl::Status Read(tensorflow::OpKernelContext* context) {
    TF_RETURN_IF_ERROR(
        arguments.Read(context, tensorflow::DataTypeToEnum<T>::value));
    const tensorflow::Tensor* biases = arguments.parameters.biases();
    descent.tree = arguments.tree;
    descent.width = arguments.width;
    descent.num_examples = arguments.num_examples;
    descent.weights = Data<Core>(arguments.parameters.weights());
    if (biases != nullptr) descent.biases = Data<Core>(*biases);
    descent.table = &KernelTableFor<Core>(ActiveIsa(nullptr));
    descent.parallel = PoolParallel(context);
    return Pack(context);
  }

  // Not flat(), which ends the process on memory that is not aligned.
  template <typename S>
  static S* Data(const tensorflow::Tensor& tensor) {
    return static_cast<S*>(tensor.data());
  }

  InferenceArguments arguments;
  GroupScorer<Core> descent;

 private:
  absl::Status Pack(tensorflow::OpKernelContext* context) {
    TF_RETURN_IF_ERROR(AllocateTemp(
        context, tensorflow::DataTypeToEnum<A>::value,
        tensorflow::TensorShape({descent.num_examples, Padded(descent.width)}),
        &packed_));
    switch (arguments.inputs->dtype()) {
      case tensorflow::DT_FLOAT:
        PackFrom<float>();
        break;
      case tensorflow::DT_DOUBLE:
        PackFrom<double>();
        break;
      case tensorflow::DT_BFLOAT16:
        PackFrom<bfloat16>();
        break;
      default:
        PackFrom<half>();
        break;
    }
    descent.x = Data<A>(packed_);
    return absl::OkStatus();
  }

  template <typename X>
  void PackFrom() {
    PackInputs(static_cast<const int64_t*>(nullptr), descent.num_examples,
               Data<X>(*arguments.inputs), descent.width, descent.parallel,
               Data<A>(packed_));
  }

  tensorflow::Tensor packed_;
};

// Calls `call`, which returns an error's text or none.
template <typename Call>
absl::Status Run(const Call& call) {
  try {
    const std::string error = call();
    return error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error);
  } catch (const std::exception&) {  // bad_alloc or length_error
    return absl::ResourceExhaustedError(
        "no memory for what these inputs meet in the tree");
  }
}

// The kernels of an op that begins with DescentInputs, on tensors (`name`) and
// on variables ("Resource" `name`), one for each element type.
#define TF_HSM_REGISTER_INFERENCE(name, kernel)                 \
  TF_HSM_REGISTER_INFERENCE_ONE(name, kernel, float);           \
  TF_HSM_REGISTER_INFERENCE_ONE(name, kernel, double);          \
  TF_HSM_REGISTER_INFERENCE_ONE(name, kernel, Eigen::bfloat16); \
  TF_HSM_REGISTER_INFERENCE_ONE(name, kernel, Eigen::half)
#define TF_HSM_REGISTER_INFERENCE_ONE(name, kernel, T) \
  TF_HSM_REGISTER_INFERENCE_NAMED(name, kernel, T);    \
  TF_HSM_REGISTER_INFERENCE_NAMED("Resource" name, kernel, T)
#define TF_HSM_REGISTER_INFERENCE_NAMED(name, kernel, T)                   \
  REGISTER_KERNEL_BUILDER(                                                 \
      Name(name)                                                           \
          .Device(tensorflow::DEVICE_CPU)                                  \
          .TypeConstraint<T>("T")                                          \
          .TypeConstraint<Accumulator<CoreType<T>::type>>("Taccumulator"), \
      kernel<T>)

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_DESCENT_INPUTS_H_
