// Memory for large outputs whose pages have been touched before.
//
// The gradient of a step is written once and soon freed. On fresh pages the
// kernel's page faults cost more than the arithmetic; here a freed block keeps
// its pages for the next step, and they are huge where the system allows it.

#ifndef TF_HSM_CC_KERNELS_CPU_PAGE_POOL_H_
#define TF_HSM_CC_KERNELS_CPU_PAGE_POOL_H_

#include <cstddef>
#include <mutex>  // NOLINT(build/c++11)
#include <string>
#include <unordered_map>
#include <vector>

#include "cc/kernels/common/element_types.h"
#include "cc/kernels/common/op_kernel.h"
#include "tensorflow/core/framework/allocator.h"

namespace tf_hsm {

class PagePool : public tensorflow::Allocator {
 public:
  // Keeps up to `max_kept` bytes of freed blocks.
  explicit PagePool(size_t max_kept) : max_kept_(max_kept) {}

  // The process's pool, which keeps 2 GiB, or as many MiB as the environment
  // variable TF_HSM_POOL_MB says. It lives as long as the process.
  static PagePool* Get();

  std::string Name() override { return "tf_hsm_page_pool"; }
  // Returns null where there is no memory.
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* data) override;

  size_t kept_bytes();

 private:
  struct Block {
    void* data;
    size_t size;
  };

  // Throws std::bad_alloc, and has then changed nothing.
  void* Allocate(size_t num_bytes);

  // Gives the blocks freed first back to the system, down to `max_kept` bytes.
  void Release(size_t max_kept);

  const size_t max_kept_;
  std::mutex mutex_;
  size_t kept_bytes_ = 0;
  // The one freed last is the last; with room for all that are in use, since a
  // tensor cannot be freed with an error.
  std::vector<Block> kept_;
  std::unordered_map<void*, size_t> in_use_;  // sizes
};

// Like OpKernelContext::allocate_temp and allocate_output, but large tensors
// come from the pool.
absl::Status AllocateTemp(OpKernelContext* context, DataType dtype,
                          const TensorShape& shape, Tensor* tensor);
absl::Status AllocateOutput(OpKernelContext* context, int index,
                            const TensorShape& shape, Tensor** output);

// AllocateTemp of numbers of type S, at `data`, which live as long as `tensor`.
template <typename S>
absl::Status AllocateTemp(OpKernelContext* context, const TensorShape& shape,
                          Tensor* tensor, S** data) {
  TF_RETURN_IF_ERROR(AllocateTemp(context, kDataType<S>, shape, tensor));
  *data = Data<S>(*tensor);
  return absl::OkStatus();
}

}  // namespace tf_hsm

#endif  // TF_HSM_CC_KERNELS_CPU_PAGE_POOL_H_
