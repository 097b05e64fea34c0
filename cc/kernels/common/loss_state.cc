#include "cc/kernels/common/loss_state.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/kernels/common/element_types.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_op_registry.h"

namespace tf_hsm {
namespace {

using tensorflow::UnaryVariantOpRegistry;
using tensorflow::Variant;

// What the variant holds.
struct KeptLossState {
  std::shared_ptr<const LossState> state;

  std::string TypeName() const { return "tf_hsm::LossState"; }
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(const tensorflow::VariantTensorData&) { return false; }
};

// A copy to another device, as of a state in a list of states, shares the
// object, which its own device alone reads.
const bool has_copies = [] {
  const auto type = tensorflow::TypeIndex::Make<KeptLossState>();
  UnaryVariantOpRegistry* registry = UnaryVariantOpRegistry::Global();
  for (const auto direction :
       {tensorflow::VariantDeviceCopyDirection::HOST_TO_DEVICE,
        tensorflow::VariantDeviceCopyDirection::DEVICE_TO_HOST,
        tensorflow::VariantDeviceCopyDirection::DEVICE_TO_DEVICE}) {
    if (registry->GetDeviceCopyFn(direction, type) != nullptr) continue;
    registry->RegisterDeviceCopyFn(
        direction, type,
        [](const Variant& from, Variant* to,
           UnaryVariantOpRegistry::AsyncTensorDeviceCopyFn) {
          *to = from;
          return absl::OkStatus();
        });
  }
  return true;
}();

// Tapes ask for zeros like every output of which nothing was used, and drop
// them again: these are empty states.
const bool has_zeros_like = [] {
  const auto op = tensorflow::ZEROS_LIKE_VARIANT_UNARY_OP;
  const auto type = tensorflow::TypeIndex::Make<KeptLossState>();
  UnaryVariantOpRegistry* registry = UnaryVariantOpRegistry::Global();
  for (const char* device : {tensorflow::DEVICE_CPU, tensorflow::DEVICE_GPU}) {
    // Twice, it would end the process that has loaded a second library.
    if (registry->GetUnaryOpFn(op, device, type) != nullptr) continue;
    registry->RegisterUnaryOpFn(
        op, device, type, [](OpKernelContext*, const Variant&, Variant* zeros) {
          *zeros = KeptLossState();
          return absl::OkStatus();
        });
  }
  return true;
}();

const char* NameOf(StateOf kernels) {
  return kernels == StateOf::kCpu ? "the CPU" : "a GPU";
}

std::string Describe(DataType dtype, const TensorShape& shape,
                     bool has_biases) {
  return absl::StrCat(tensorflow::DataTypeString(dtype), " weights of shape ",
                      shape.DebugString(), has_biases ? " with" : " without",
                      " biases");
}

absl::Status Refuse(const std::string& made, const std::string& wanted) {
  return InvalidArgument("state must come from a loss ", wanted, ", but is ",
                         made);
}

}  // namespace

LossState::LossState(StateOf the_kernels, const LossArguments& arguments)
    : kernels(the_kernels),
      dtype(arguments.parameters.weights().dtype()),
      weights_shape(arguments.parameters.weights().shape()),
      has_biases(arguments.parameters.biases() != nullptr),
      batch_shape(arguments.batch_shape) {}

absl::Status SetLossState(OpKernelContext* context, int index,
                          std::shared_ptr<const LossState> state) {
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  Tensor* output;
  TF_RETURN_IF_ERROR(
      context->allocate_output(index, TensorShape(), &output, on_host));
  *Data<Variant>(*output) = KeptLossState{std::move(state)};
  return absl::OkStatus();
}

absl::Status ReadLossState(OpKernelContext* context, StateOf kernels,
                           const Parameters& parameters,
                           const LossState** state, const Tensor** loss_grads) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(context->input("state", &tensor));
  if (tensor->dims() != 0) {
    return InvalidArgument("state must be a scalar, but has the shape ",
                           tensor->shape().DebugString());
  }
  const Variant& variant = *Data<const Variant>(*tensor);
  const auto* kept = variant.get<KeptLossState>();
  if (kept == nullptr && !variant.is_empty()) {
    return Refuse(absl::StrCat("a variant of the type ", variant.TypeName()),
                  "op");
  }
  if (kept == nullptr || kept->state == nullptr) {
    return Refuse("empty", "op that ran with_gradients");
  }
  const LossState& found = *kept->state;
  if (found.kernels != kernels) {
    return Refuse(absl::StrCat("that of one on ", NameOf(found.kernels)),
                  absl::StrCat("on ", NameOf(kernels)));
  }
  const Tensor& weights = parameters.weights();
  const bool has_biases = parameters.biases() != nullptr;
  if (found.dtype != weights.dtype() || found.has_biases != has_biases ||
      found.weights_shape != weights.shape()) {
    return InvalidArgument(
        "state must come from a loss with ",
        Describe(weights.dtype(), weights.shape(), has_biases),
        ", but comes from a loss with ",
        Describe(found.dtype, found.weights_shape, found.has_biases));
  }
  TF_RETURN_IF_ERROR(ReadLossGrads(context, found.batch_shape, loss_grads));
  *state = &found;
  return absl::OkStatus();
}

}  // namespace tf_hsm
