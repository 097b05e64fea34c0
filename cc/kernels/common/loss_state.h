// What a loss keeps for its gradient: the ops' output and input `state`.
//
// It is a scalar of TensorFlow's type `variant`, which holds a C++ object, in
// host memory on every device. LossState has no registered decoder: a graph, a
// file or a user can pass on the state of a loss, but cannot make one. So a
// gradient believes every number in it, also those that become an index.

#ifndef TF_HSM_CC_KERNELS_COMMON_LOSS_STATE_H_
#define TF_HSM_CC_KERNELS_COMMON_LOSS_STATE_H_

#include <memory>

#include "cc/kernels/common/loss_arguments.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/common/parameters.h"

namespace tf_hsm {

// Whose kernels have made a state, and understand it.
enum class StateOf { kCpu, kGpu };

// What a loss was made of. Kernels derive what they keep from it, a class for
// each element type.
struct LossState {
  LossState(StateOf the_kernels, const LossArguments& arguments);
  virtual ~LossState() = default;

  const StateOf kernels;
  const DataType dtype;  // of the parameters
  const TensorShape weights_shape;
  const bool has_biases;
  const TensorShape batch_shape;
};

// Makes the op's output `index`, a state; an empty one of null.
absl::Status SetLossState(OpKernelContext* context, int index,
                          std::shared_ptr<const LossState> state);

// Finds the op's input `state`, of such kernels, whose loss had parameters like
// these; and `loss_grads`, of the shape of its labels.
absl::Status ReadLossState(OpKernelContext* context, StateOf kernels,
                           const Parameters& parameters,
                           const LossState** state, const Tensor** loss_grads);

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_COMMON_LOSS_STATE_H_
