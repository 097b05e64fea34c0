// The loss, its gradients and a training step on a GPU: what callers see.
//
// Plain C++: neither CUDA nor TensorFlow types. All pointers but those to the
// structs themselves are to device memory; `stream` is a cudaStream_t. Nothing
// waits for the device: sizes of memory follow from shapes and from constants
// of the tree (or from visits, see label_tree.h), and counts that depend on the
// labels stay on the device.
//
// A batch goes through
//   Forward(batch, memory, outputs)   plan, loss, dx when asked for
//   Backward(batch, memory, ...)      dw and db of the touched rows, or an
//                                     update of them in place
// with `memory.state` kept in between, which Backward only reads, as often as
// it is called. Backward reads the batch's labels and inputs only in chunks. A
// label out of range, or a path that the tree's arrays break, cannot raise
// here: its loss is NaN, its gradients zero. Functions return an empty string,
// or a sentence that says what is wrong.
//
// Two calls with equal arguments give equal bits on devices of one kind: no sum
// depends on the order in which blocks run.

#ifndef TF_HSM_CC_CUDA_API_GPU_H_
#define TF_HSM_CC_CUDA_API_GPU_H_

#include <cstdint>
#include <string>

#include "cc/core/base/types.h"
#include "cc/core/tree/tree_view.h"
#include "cc/core/update/update.h"

namespace tf_hsm::gpu {

// The element type of a tensor that is passed as const void*.
#define TF_HSM_ENUMERATOR(T, ...) k_##T,
enum class ElementType { TF_HSM_ELEMENT_TYPES(TF_HSM_ENUMERATOR) };
#undef TF_HSM_ENUMERATOR

// kElementType<float> is ElementType::k_float, and so on.
template <typename T>
inline constexpr ElementType kElementType = ElementType();
#define TF_HSM_ELEMENT_TYPE(T, ...) \
  template <>                       \
  inline constexpr ElementType kElementType<T> = ElementType::k_##T;
TF_HSM_ELEMENT_TYPES(TF_HSM_ELEMENT_TYPE)
#undef TF_HSM_ELEMENT_TYPE

// use(elements), where `elements` is `data` as a pointer to its own type.
template <typename Use>
void WithElements(ElementType type, const void* data, const Use& use) {
#define TF_HSM_USE(T, ...) \
  if (type == kElementType<T>) return use(static_cast<const T*>(data));
  TF_HSM_ELEMENT_TYPES(TF_HSM_USE)
#undef TF_HSM_USE
}

// Constants of a tree, found once per tree on the host. A small group has at
// most kMaxSmallFanout rows (cc/core/plan/plan.h), a large one more.
struct TreeShape {
  int64_t depth = 0;         // groups on the longest path
  int64_t max_fanout = 0;    // rows of the largest group
  int64_t small_fanout = 0;  // rows of the largest small group
  int64_t large_depth = 0;   // most large groups on one path
};

// `tree` is in host memory. O(groups) work.
TreeShape DescribeTree(const TreeView& tree);

// kExact: products of float32 values as they are. kTensorCores: operands with
// the 10 explicit bits of tf32 for float32 weights, and with those of the
// weights' type for bfloat16 and half; sums in float32 in any case. float64 is
// exact always, and so is everything on a device older than sm_80.
enum class Precision { kExact, kTensorCores };

constexpr int kMaxIgnored = 8;

template <typename T>
struct Batch {
  // Has device pointers. row_below may be null; root_groups is not read.
  TreeView tree;
  TreeShape shape;
  const T* weights = nullptr;  // [weight rows, width]
  const T* biases = nullptr;   // [weight rows], or null
  int64_t width = 0;
  const void* inputs = nullptr;  // [size, width]
  ElementType input_type = kElementType<float>;
  const void* labels = nullptr;  // [size], int32 or int64
  bool labels_are_int64 = true;
  int64_t size = 0;
  int num_ignored = 0;
  int64_t ignored[kMaxIgnored] = {};  // classes without loss
  Precision precision = Precision::kExact;
  // The share of each group's target that is spread over its rows, in [0, 1],
  // and [rows of the tree], the share of that for each row of a group; null:
  // evenly. Any prior is taken as it is. Only the loss reads them.
  Accumulator<T> label_smoothing = 0;
  const float* smoothing_prior = nullptr;
  // See Problem; 0 for none. Both need a tree of one large group, and the cap
  // excludes label smoothing. Only the loss reads z_loss.
  Accumulator<T> logit_soft_cap = 0;
  Accumulator<T> z_loss = 0;
  // [size, roots], where walks down begin; null: 0. The loss does not read it.
  const Accumulator<T>* root_log_probs = nullptr;
  // For the loss of a label tree: see label_tree.h. Then `size` is the number
  // of visits, and labels and arrays of the tree are not read.
  const void* visits = nullptr;         // in host memory
  const void* device_visits = nullptr;  // a copy
  // Whether each row has a sigmoid, as in a label tree: for top-k and
  // log-probabilities.
  bool has_sigmoids = false;
};

// Bytes of the two blocks of device memory that a batch needs, aligned to 256.
struct MemorySizes {
  int64_t state = 0;             // written by Forward, read by Backward
  int64_t forward_scratch = 0;   // of Forward; nothing is kept in it
  int64_t backward_scratch = 0;  // of Backward and ApplyUpdate

  // For all functions.
  int64_t scratch() const {
    return forward_scratch > backward_scratch ? forward_scratch
                                              : backward_scratch;
  }
};

// `logits_bytes`: at most so many bytes of the state hold logits of groups for
// the backward, which otherwise makes them again from the weights. Groups that
// many examples pass are only fast where theirs fit. The batch of a flat tree
// whose logits do not fit is taken in chunks of examples (chunks.h): then the
// scratch holds the logits of one chunk, and for the backward a float32 sum for
// each weight; the state holds one number. A label tree keeps what it needs of
// all logits, whatever `logits_bytes` are.
template <typename T>
MemorySizes SizesOf(const Batch<T>& batch, int64_t logits_bytes);

struct Memory {
  void* state = nullptr;
  void* scratch = nullptr;
  int64_t logits_bytes = 0;  // as given to SizesOf
};

template <typename T>
struct LossOutputs {  // of the examples
  using A = Accumulator<T>;
  A* loss = nullptr;              // [size]
  A* dx = nullptr;                // [size, width], or null
  const A* dx_factors = nullptr;  // [size], what dx is times; null: 1
};

template <typename T>
std::string Forward(const Batch<T>& batch, const Memory& memory,
                    const LossOutputs<T>& outputs, void* stream);

// Forward in two parts, for who wants to know the number of touched rows
// (NumTouchedRows) before the second: the plan and the inputs in its order, and
// what reads the weights. `loss`: LossOutputs::loss of both.
template <typename T>
std::string PlanForward(const Batch<T>& batch, const Memory& memory,
                        Accumulator<T>* loss, void* stream);
template <typename T>
std::string FinishForward(const Batch<T>& batch, const Memory& memory,
                          const LossOutputs<T>& outputs, void* stream);

// Where dw and db of the touched rows of the parameters go (tree_view.h); rows
// ascending and unique. At most
// `capacity` rows are written; MaxTouchedRows are always enough. Rows from the
// count (NumTouchedRows) on are set to -1, their dw and db are left alone.
template <typename T>
struct RowGradients {
  int64_t capacity = 0;
  int64_t* rows = nullptr;  // [capacity]
  T* dw = nullptr;          // [capacity, width]
  T* db = nullptr;          // [capacity], or null
};

template <typename T>
int64_t MaxTouchedRows(const Batch<T>& batch);

// In device memory, after the plan is made: the number of touched rows.
template <typename T>
const int64_t* NumTouchedRows(const Batch<T>& batch, const Memory& memory);

// The gradients for the total of loss_grads [size] x loss.
template <typename T>
std::string Backward(const Batch<T>& batch, const Memory& memory,
                     const Accumulator<T>* loss_grads,
                     const RowGradients<T>& gradients, void* stream);

// One step of a rule. The device reads its numbers when the step runs: the host
// need not know them. Any numbers are taken as they are.
template <typename T>
struct DeviceUpdate : UpdatedParameters<T> {
  const Hyperparameters* hyper = nullptr;
  const uint64_t* seed = nullptr;  // read where the rounding is stochastic
  // [2], the decay and the bias_decay of update.h, or [1] without biases; null:
  // 0.
  const double* decays = nullptr;
};

// Applies these gradients at once: `update` points at the parameters that
// `batch` reads.
template <typename T>
std::string ApplyUpdate(const Batch<T>& batch, const Memory& memory,
                        const Accumulator<T>* loss_grads,
                        const DeviceUpdate<T>& update, void* stream);

// Forward and ApplyUpdate, which together make the logits of a chunk once.
template <typename T>
std::string TrainStep(const Batch<T>& batch, const Memory& memory,
                      const LossOutputs<T>& outputs,
                      const Accumulator<T>* loss_grads,
                      const DeviceUpdate<T>& update, void* stream);

}  // namespace tf_hsm::gpu

#endif  // TF_HSM_CC_CUDA_API_GPU_H_
