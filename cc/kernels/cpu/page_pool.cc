#include "cc/kernels/cpu/page_pool.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace tf_hsm {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Outputs below this are left to TensorFlow, whose allocator reuses them.
constexpr size_t kMinPooled = size_t{4} << 20;

size_t RoundUp(size_t size) {
  return (size + kHugePage - 1) / kHugePage * kHugePage;
}

// `size` bytes that begin at a huge page, or null.
void* Map(size_t size) {
  void* data = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(data);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(begin)) -
                        reinterpret_cast<uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kHugePage - before);
#if defined(MADV_HUGEPAGE)
  madvise(begin + before, size, MADV_HUGEPAGE);
#endif
  return begin + before;
}

}  // namespace

PagePool* PagePool::Get() {
  static PagePool* const pool = [] {
    const char* megabytes = std::getenv("TF_HSM_POOL_MB");
    char* end = nullptr;
    const long long kept =  // NOLINT(runtime/int)
        megabytes == nullptr ? -1 : std::strtoll(megabytes, &end, 10);
    const bool valid = kept >= 0 && kept < (1ll << 40) && end != megabytes;
    return new PagePool(static_cast<size_t>(valid ? kept : 2048) << 20);
  }();
  return pool;
}

void* PagePool::AllocateRaw(size_t, size_t num_bytes) {
  try {
    return Allocate(num_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* PagePool::Allocate(size_t num_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.reserve(kept_.size() + in_use_.size() + 1);
  // The smallest block that fits, unless most of it would lie idle.
  size_t best = kept_.size();
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i].size >= num_bytes && kept_[i].size / 2 <= num_bytes &&
        (best == kept_.size() || kept_[i].size < kept_[best].size)) {
      best = i;
    }
  }
  if (best < kept_.size()) {
    const Block block = kept_[best];
    in_use_[block.data] = block.size;
    kept_.erase(kept_.begin() + best);
    kept_bytes_ -= block.size;
    return block.data;
  }
  // Steps differ a little in size: an eighth more fits the next ones too, and
  // costs no memory before it is touched.
  const size_t size = RoundUp(num_bytes + num_bytes / 8);
  void* data = Map(size);
  if (data == nullptr) {
    Release(0);
    data = Map(size);
  }
  if (data == nullptr) return nullptr;
  try {
    in_use_[data] = size;
  } catch (const std::bad_alloc&) {
    munmap(data, size);
    throw;
  }
  return data;
}

void PagePool::DeallocateRaw(void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = in_use_.find(data);
  const Block block = {data, found->second};
  in_use_.erase(found);
  if (block.size > max_kept_) {
    munmap(block.data, block.size);
    return;
  }
  kept_.push_back(block);
  kept_bytes_ += block.size;
  Release(max_kept_);
}

void PagePool::Release(size_t max_kept) {
  while (kept_bytes_ > max_kept) {
    munmap(kept_.front().data, kept_.front().size);
    kept_bytes_ -= kept_.front().size;
    kept_.erase(kept_.begin());
  }
}

size_t PagePool::kept_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_bytes_;
}

absl::Status AllocateTemp(OpKernelContext* context, DataType dtype,
                          const TensorShape& shape, Tensor* tensor) {
  const size_t bytes = static_cast<size_t>(shape.num_elements()) *
                       tensorflow::DataTypeSize(dtype);
  if (bytes < kMinPooled) return context->allocate_temp(dtype, shape, tensor);
  *tensor = Tensor(PagePool::Get(), dtype, shape);
  if (tensor->IsInitialized()) return absl::OkStatus();
  return absl::ResourceExhaustedError("no memory for a tensor of shape " +
                                      shape.DebugString() + ", " +
                                      std::to_string(bytes) + " bytes");
}

absl::Status AllocateOutput(OpKernelContext* context, int index,
                            const TensorShape& shape, Tensor** output) {
  Tensor tensor;
  TF_RETURN_IF_ERROR(AllocateTemp(
      context, context->expected_output_dtype(index), shape, &tensor));
  context->set_output(index, tensor);
  *output = context->mutable_output(index);
  return absl::OkStatus();
}

}  // namespace tf_hsm
