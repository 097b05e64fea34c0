// The gradient of the parameters by the sum of the losses, which a loss in
// chunks (LossInChunks) has made: for losses that all weigh the same.

#ifndef TF_HSM_CC_KERNELS_CPU_READY_GRADIENT_H_
#define TF_HSM_CC_KERNELS_CPU_READY_GRADIENT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>

#include "cc/core/base/parallel.h"
#include "cc/core/base/types.h"
#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "cc/kernels/cpu/page_pool.h"

namespace tf_hsm {

class ReadyGradient {
 public:
  // Makes the gradient by losses of this weight the op's outputs 1 and 2. The
  // first call multiplies the sums where they lie, and gives them away; so do
  // later ones with the same weight. Others make copies.
  template <typename T>
  absl::Status SetOutputs(OpKernelContext* context, Accumulator<T> weight,
                          const Parallel& parallel) {
    using A = Accumulator<T>;
    constexpr bool is_same = kDataType<T> == kDataType<A>;
    const A rest = is_same ? MultiplyOnce(weight, parallel) : weight;
    for (int i : {1, 2}) {
      const Tensor& sums = i == 1 ? dw : db;
      if (is_same && rest == 1) {
        context->set_output(i, sums);
        continue;
      }
      Tensor* output;
      TF_RETURN_IF_ERROR(AllocateOutput(context, i, sums.shape(), &output));
      using Number = typename tensorflow::EnumToDataType<kDataType<T>>::Type;
      const A* from = Data<A>(sums);
      Number* to = Data<Number>(*output);
      ForNumbers(sums.NumElements(), parallel, [&](int64_t at) {
        to[at] = static_cast<Number>(from[at] * rest);
      });
    }
    return absl::OkStatus();
  }

  // Returns the factor that makes the sums those of losses of this weight. No
  // call changes the sums from now on.
  template <typename A>
  A FactorOf(A weight) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (weight_ == 0) weight_ = 1;
    return Rest(weight);
  }

  Tensor dw, db;  // [fanout, width], [fanout]; accumulators

 private:
  // Multiplies the sums by `weight` if nobody has them yet. Returns what they
  // are still to be multiplied by.
  template <typename A>
  A MultiplyOnce(A weight, const Parallel& parallel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (weight_ == 0) {
      // Products that are too small or too large could not be undone.
      const A size = std::abs(weight);
      const A factor = size > A(1e-12) && size < A(1e12) ? weight : A(1);
      for (const Tensor* sums : {&dw, &db}) {
        A* values = Data<A>(*sums);
        ForNumbers(sums->NumElements(), parallel,
                   [&](int64_t at) { values[at] *= factor; });
      }
      weight_ = factor;
    }
    return Rest(weight);
  }

  template <typename A>
  A Rest(A weight) const {
    const A so_far = static_cast<A>(weight_);
    return weight == so_far ? A(1) : weight / so_far;
  }

  // Calls work(i) for i in [0, count).
  template <typename Work>
  static void ForNumbers(int64_t count, const Parallel& parallel,
                         const Work& work) {
    constexpr int64_t kPart = 1 << 18;
    parallel((count + kPart - 1) / kPart, [&](int64_t part) {
      const int64_t end = std::min((part + 1) * kPart, count);
      for (int64_t i = part * kPart; i < end; ++i) work(i);
    });
  }

  std::mutex mutex_;
  double weight_ = 0;  // of the losses in the sums; 0: 1, and nobody has them
};

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_READY_GRADIENT_H_
